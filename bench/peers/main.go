// Peers measures the relay against what one would pick instead to keep messages
// safe: PostgreSQL, Redis streams and NATS JetStream, each set so that what it
// has accepted survives a power cut. All run on this machine, on loopback and
// on the same disk, take the same bytes from the same loop of clients, and take
// turns in every round, so that the ratios hold although the machine drifts.
//
//	go run . -clients 1,8,32 -rounds 7 -seconds 3
//
// A system that is not installed is left out and named. What the program starts
// it also ends, and its folder goes with it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// options are the command line.
type options struct {
	clients  []int
	rounds   int
	measured time.Duration
	warmup   time.Duration
	body     int // bytes of a send's body
	peerBody int // bytes that the other systems store for each
	systems  []string
	rows     []string
	streams  int
	queued   int
	ace      string
	repo     string
	dir      string
	json     bool
}

// The kinds of rows, by their name on the command line.
const (
	rowSends   = "sends"
	rowStreams = "streams"
	rowPage    = "page"
	rowBytes   = "bytes"
)

func main() {
	if len(os.Args) == 3 && os.Args[1] == serveNATS {
		exit(runNATSServer(os.Args[2]))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	// "go run" does not pass every signal on, and may be killed.
	dieWithParent()
	o, err := parseOptions(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		os.Exit(2)
	}
	if err == nil {
		err = run(ctx, o)
	}
	exit(err)
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func parseOptions(args []string) (*options, error) {
	o := &options{}
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	clients := f.String("clients", "1,8,32", "numbers of clients, each a closed loop on a kept connection")
	f.IntVar(&o.rounds, "rounds", 7, "rounds; every figure is the median over them")
	seconds := f.Float64("seconds", 3, "measured seconds of each system in each round")
	warmup := f.Float64("warmup", 0.5, "seconds before these, which are not measured")
	f.IntVar(&o.body, "body", 14_000, "bytes of a send's body, its permit included")
	f.IntVar(&o.peerBody, "peer-body", 0, "bytes of a message for the other systems (0: as -body)")
	systems := f.String("systems", "", "systems to measure (default: all that are installed)")
	rows := f.String("rows", strings.Join([]string{rowSends, rowStreams, rowPage, rowBytes}, ","), "kinds of rows to measure")
	f.IntVar(&o.streams, "streams", 4000, "idle listen streams")
	f.IntVar(&o.queued, "queued", 1_000_000, "entries in the store of the row about a page of the inbox")
	f.StringVar(&o.ace, "ace", "", "the program ace to measure (default: built from -repo)")
	f.StringVar(&o.repo, "repo", "../..", "root of the repository")
	f.StringVar(&o.dir, "dir", "", "folder on a disk for a temporary folder with all data (default: the system's)")
	f.BoolVar(&o.json, "json", false, "print JSON")
	if err := f.Parse(args); err != nil {
		return nil, flag.ErrHelp
	}
	for _, text := range strings.Split(*clients, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("-clients: %q is no number of clients", text)
		}
		o.clients = append(o.clients, n)
	}
	if *systems != "" {
		o.systems = strings.Split(*systems, ",")
	}
	o.rows = strings.Split(*rows, ",")
	o.measured = time.Duration(*seconds * float64(time.Second))
	o.warmup = time.Duration(*warmup * float64(time.Second))
	if o.peerBody == 0 {
		o.peerBody = o.body
	}
	if o.rounds < 1 || o.measured <= 0 || o.warmup < 0 || f.NArg() > 0 {
		return nil, errors.New("rounds and seconds are positive, and there are no further arguments")
	}
	return o, nil
}

func run(ctx context.Context, o *options) (err error) {
	dir, err := os.MkdirTemp(o.dir, "ace-peers-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := checkDisk(dir); err != nil {
		return err
	}
	// A server that must not run as root has to reach its folder below.
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	// The benchmarks run in a folder of their own.
	if o.repo, err = filepath.Abs(o.repo); err != nil {
		return err
	}
	if o.ace != "" {
		o.ace, err = filepath.Abs(o.ace)
	}
	if err != nil {
		return err
	}
	if o.ace == "" {
		o.ace = filepath.Join(dir, "ace")
		if err := buildAce(ctx, o.repo, o.ace); err != nil {
			return err
		}
	}
	t := newTable(o)
	err = measure(ctx, o, dir, t)
	// What was measured before something failed is worth its time.
	if o.json {
		return errors.Join(err, t.printJSON(os.Stdout))
	}
	return errors.Join(err, t.print(os.Stdout))
}

// measure goes on with the next kind of rows after one that failed.
func measure(ctx context.Context, o *options, dir string, t *table) error {
	var failed error
	if slices.Contains(o.rows, rowSends) {
		failed = measureSends(ctx, o, dir, t)
	}
	if ctx.Err() == nil && slices.Contains(o.rows, rowStreams) {
		failed = errors.Join(failed, measureStreams(ctx, o, dir, t))
	}
	if ctx.Err() == nil {
		failed = errors.Join(failed, measureBenchmarks(ctx, o, dir, t))
	}
	return failed
}

// progress goes to standard error, the table alone to standard output.
func progress(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
