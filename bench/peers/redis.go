package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/ace-toolkit/ace/relaysvc/loadgen"
)

// redis is a Redis server that writes its log to the disk before it answers,
// and is spared what else it would do meanwhile: snapshots and rewriting its
// log.
type redis struct {
	body              int
	dir, program      string
	started           int
	address, password string
}

func (r *redis) name() string { return "redis" }

func (r *redis) prepare(_ context.Context, dir string) error {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return fmt.Errorf("redis-server: %w", errMissing)
	}
	r.dir, r.program = dir, path
	return nil
}

func (r *redis) close() error { return nil }

func (r *redis) session(ctx context.Context, clients int) (*session, error) {
	r.started++
	data := filepath.Join(r.dir, fmt.Sprint(r.started))
	if err := os.Mkdir(data, 0o700); err != nil {
		return nil, err
	}
	p, err := r.start(ctx, data)
	if err != nil {
		return nil, err
	}
	stop := func() error { return errors.Join(p.kill(0), os.RemoveAll(data)) }
	conns := make([]*redisConn, clients)
	for i := range conns {
		if conns[i], err = r.dial(ctx); err != nil {
			return nil, errors.Join(err, stop())
		}
	}
	run := func(ctx context.Context, pace loadgen.Pace) (*loadgen.Result, error) {
		return loadgen.Run(ctx, pace, func(i int) func() error {
			m := newMessage(r.body)
			return func() error { return conns[i].do("XADD", "messages", "*", "body", string(m.next())) }
		})
	}
	return &session{run: run, close: func() error {
		for _, c := range conns {
			c.Close()
		}
		return stop()
	}}, nil
}

func (r *redis) start(ctx context.Context, data string) (*process, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	password := rand.Text()
	settings := []string{
		"bind 127.0.0.1", "port " + strconv.Itoa(port), "requirepass " + password, "dir " + data,
		"daemonize no", `save ""`, "appendonly yes", "appendfsync always", "auto-aof-rewrite-percentage 0",
	}
	path := filepath.Join(data, "redis.conf")
	if err := os.WriteFile(path, []byte(strings.Join(settings, "\n")+"\n"), 0o600); err != nil {
		return nil, err
	}
	p, err := startProcess(ctx, exec.Command(r.program, path))
	if err != nil {
		return nil, err
	}
	r.address, r.password = net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), password
	err = p.untilReady(ctx, func(ctx context.Context) error {
		c, err := r.dial(ctx)
		if err != nil {
			return err
		}
		defer c.Close()
		return c.do("PING")
	})
	if err != nil {
		return nil, errors.Join(err, p.kill(0))
	}
	return p, nil
}

// redisConn speaks as much of the protocol as is needed.
type redisConn struct {
	net.Conn
	in  *bufio.Reader
	out []byte
}

func (r *redis) dial(ctx context.Context) (*redisConn, error) {
	c, err := (&net.Dialer{Timeout: time.Second}).DialContext(ctx, "tcp", r.address)
	if err != nil {
		return nil, err
	}
	conn := &redisConn{Conn: c, in: bufio.NewReader(c)}
	if err := conn.do("AUTH", r.password); err != nil {
		c.Close()
		return nil, err
	}
	return conn, nil
}

// do sends a command and reads an answer that is no list.
func (c *redisConn) do(args ...string) error {
	c.out = fmt.Appendf(c.out[:0], "*%d\r\n", len(args))
	for _, a := range args {
		c.out = strconv.AppendInt(append(c.out, '$'), int64(len(a)), 10)
		c.out = append(append(append(c.out, "\r\n"...), a...), "\r\n"...)
	}
	if _, err := c.Write(c.out); err != nil {
		return err
	}
	line, err := c.in.ReadString('\n')
	switch {
	case err != nil:
		return err
	case line[0] == '-':
		return errors.New(strings.TrimSpace(line))
	case line[0] != '$':
		return nil
	}
	n, err := strconv.Atoi(strings.TrimSpace(line[1:]))
	if err == nil {
		_, err = c.in.Discard(n + len("\r\n"))
	}
	return err
}
