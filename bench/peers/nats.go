package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/ace-toolkit/ace/relaysvc/loadgen"
)

// natsServer is NATS JetStream with one stream in files. By default it answers
// before a message has reached the disk; here it does not.
type natsServer struct {
	body    int
	dir     string
	started int
}

func (n *natsServer) name() string { return "nats" }

func (n *natsServer) prepare(_ context.Context, dir string) error {
	n.dir = dir
	return nil
}

func (n *natsServer) close() error { return nil }

func (n *natsServer) session(ctx context.Context, clients int) (*session, error) {
	n.started++
	data := filepath.Join(n.dir, fmt.Sprint(n.started))
	p, url, err := startNATS(ctx, data)
	if err != nil {
		return nil, err
	}
	var conns []*nats.Conn
	closeAll := func() error {
		for _, c := range conns {
			c.Close()
		}
		return errors.Join(p.kill(0), os.RemoveAll(data))
	}
	for range clients {
		c, err := nats.Connect(url)
		if err != nil {
			return nil, errors.Join(err, closeAll())
		}
		conns = append(conns, c)
	}
	streams := make([]jetstream.JetStream, clients)
	for i, c := range conns {
		if streams[i], err = jetstream.New(c); err != nil {
			return nil, errors.Join(err, closeAll())
		}
	}
	_, err = streams[0].CreateStream(ctx, jetstream.StreamConfig{
		Name: "messages", Subjects: []string{"messages"}, Storage: jetstream.FileStorage, Replicas: 1,
	})
	if err != nil {
		return nil, errors.Join(err, closeAll())
	}
	run := func(ctx context.Context, pace loadgen.Pace) (*loadgen.Result, error) {
		return loadgen.Run(ctx, pace, func(i int) func() error {
			m := newMessage(n.body)
			return func() error {
				_, err := streams[i].Publish(ctx, "messages", m.next())
				return err
			}
		})
	}
	return &session{run: run, close: closeAll}, nil
}

// serveNATS makes this program a NATS server, with a folder as its argument:
// another process, as the other systems are.
const serveNATS = "serve-nats"

func startNATS(ctx context.Context, data string) (*process, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	cmd := exec.Command(self, serveNATS, data)
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	p, err := startProcess(ctx, cmd)
	if err != nil {
		return nil, "", err
	}
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		err = errors.Join(err, p.kill(0))
		return nil, "", fmt.Errorf("the server did not start: %w: %s", err, p.stderr.Bytes())
	}
	return p, strings.TrimSpace(url), nil
}

// runNATSServer prints its URL and serves until it is killed.
func runNATSServer(data string) error {
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: data, SyncAlways: true, MaxPayload: 4 << 20,
	})
	if err != nil {
		return err
	}
	s.Start()
	if !s.ReadyForConnections(10 * time.Second) {
		return errors.New("not ready for connections")
	}
	fmt.Println(s.ClientURL())
	s.WaitForShutdown()
	return nil
}
