package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/ace-toolkit/ace/relaysvc/loadgen"
)

// postgres is a PostgreSQL server with its own cluster and the settings it
// comes with: every insert is a transaction, and durable when it is answered.
type postgres struct {
	body    int
	server  *process
	url     string
	account *syscall.Credential // nil: this user
}

func (p *postgres) name() string { return "postgres" }

func (p *postgres) prepare(ctx context.Context, dir string) error {
	bin, err := postgresPrograms()
	if err != nil {
		return err
	}
	if err := p.giveAway(dir); err != nil {
		return err
	}
	password := rand.Text()
	secret, data := filepath.Join(dir, "password"), filepath.Join(dir, "data")
	if err := os.WriteFile(secret, []byte(password), 0o600); err != nil {
		return err
	}
	if err := p.giveAway(secret); err != nil {
		return err
	}
	initdb := exec.CommandContext(ctx, filepath.Join(bin, "initdb"), "--pgdata", data, "--username", "bench",
		"--auth", "scram-sha-256", "--pwfile", secret, "--encoding", "UTF8", "--locale", "C")
	initdb.SysProcAttr = &syscall.SysProcAttr{Credential: p.account}
	initdb.Dir = dir
	if text, err := initdb.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, text)
	}
	port, err := freePort()
	if err != nil {
		return err
	}
	p.url = fmt.Sprintf("postgres://bench:%s@127.0.0.1:%d/postgres?sslmode=disable", password, port)
	cmd := exec.Command(filepath.Join(bin, "postgres"), "-D", data, "-p", strconv.Itoa(port),
		"-c", "listen_addresses=127.0.0.1", "-c", "unix_socket_directories=",
		"-c", "max_connections=1100", "-c", "fsync=on", "-c", "synchronous_commit=on")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: p.account}
	cmd.Dir = dir
	if p.server, err = startProcess(ctx, cmd); err != nil {
		return err
	}
	return p.server.untilReady(ctx, func(ctx context.Context) error {
		return p.exec(ctx, "CREATE TABLE message (id bigint PRIMARY KEY, body bytea NOT NULL)")
	})
}

// postgresPrograms returns the folder with the programs of the newest version.
func postgresPrograms() (string, error) {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if path, err := exec.LookPath("initdb"); err == nil {
		found = append(found, path)
	}
	if len(found) == 0 {
		return "", fmt.Errorf("initdb: %w", errMissing)
	}
	return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return versionOf(a) - versionOf(b) })), nil
}

func versionOf(initdb string) int {
	n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(initdb))))
	return n
}

// giveAway makes a file belong to an account that the server may run as, which
// root is not.
func (p *postgres) giveAway(path string) error {
	if os.Getuid() != 0 {
		return nil
	}
	if p.account == nil {
		u, err := user.Lookup("postgres")
		if err != nil {
			return fmt.Errorf("%w for root: %v", errMissing, err)
		}
		uid, err1 := strconv.ParseUint(u.Uid, 10, 32)
		gid, err2 := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		p.account = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	return os.Chown(path, int(p.account.Uid), int(p.account.Gid))
}

func (p *postgres) exec(ctx context.Context, statements ...string) error {
	c, err := pgx.Connect(ctx, p.url)
	if err != nil {
		return err
	}
	defer c.Close(ctx)
	for _, s := range statements {
		if _, err := c.Exec(ctx, s); err != nil {
			return err
		}
	}
	return nil
}

func (p *postgres) session(ctx context.Context, clients int) (*session, error) {
	if err := p.exec(ctx, "TRUNCATE message", "CHECKPOINT"); err != nil {
		return nil, err
	}
	var conns []*pgconn.PgConn
	closeAll := func() error {
		var errs []error
		for _, c := range conns {
			errs = append(errs, c.Close(context.WithoutCancel(ctx)))
		}
		return errors.Join(errs...)
	}
	for range clients {
		c, err := pgconn.Connect(ctx, p.url)
		if err == nil {
			conns = append(conns, c)
			_, err = c.Prepare(ctx, "insert", "INSERT INTO message (id, body) VALUES ($1, $2)", nil)
		}
		if err != nil {
			return nil, errors.Join(err, closeAll())
		}
	}
	var ids atomic.Int64
	run := func(ctx context.Context, pace loadgen.Pace) (*loadgen.Result, error) {
		return loadgen.Run(ctx, pace, func(i int) func() error {
			m := newMessage(p.body)
			return func() error {
				id := strconv.AppendInt(nil, ids.Add(1), 10)
				// Formats: the number as text, the body as it is.
				return conns[i].ExecPrepared(ctx, "insert", [][]byte{id, m.next()}, []int16{0, 1}, nil).Read().Err
			}
		})
	}
	return &session{run: run, close: closeAll}, nil
}

func (p *postgres) close() error {
	if p.server == nil {
		return nil
	}
	return p.server.kill(syscall.SIGQUIT) // ends at once, and takes its shared memory along
}

// freePort returns a port that nothing listens on at this moment.
func freePort() (int, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer ln.Close()
	return ln.Addr().(*net.TCPAddr).Port, nil
}
