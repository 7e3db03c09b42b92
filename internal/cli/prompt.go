package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// answerLimit bounds an answer typed at a prompt, in bytes.
const answerLimit = 4096

// ask asks a question on the terminal and returns the answer, or the default
// for an empty one.
func (a *app) ask(ctx context.Context, question, byDefault string) (string, error) {
	if byDefault != "" {
		question += " [" + byDefault + "]"
	}
	fmt.Fprintf(a.io.Err, "%s: ", question)
	line, err := interruptible(ctx, func() (string, error) { return readLine(a.io.In) })
	if err != nil {
		fmt.Fprintln(a.io.Err) // the line of the question has not ended
	}
	if err != nil && ctx.Err() != nil {
		return "", err
	}
	if err != nil {
		return "", declined("no answer", a.command+" --help lists the options that answer it")
	}
	if line = strings.TrimSpace(line); line == "" {
		return byDefault, nil
	}
	return line, nil
}

// confirm asks for a yes and fails without one. Every yes or no question of
// the program is asked here.
func (a *app) confirm(ctx context.Context, question string) error {
	if a.flags.yes {
		return nil
	}
	if !a.interactive() {
		return &statusError{exitDeclined, codeDeclined, fmt.Errorf("nobody can be asked: %s", question)}
	}
	answer, err := a.ask(ctx, question+" (y/N)", "")
	if err != nil {
		return err
	}
	if answer = strings.ToLower(answer); answer != "y" && answer != "yes" {
		return &statusError{exitDeclined, codeDeclined, errors.New("not confirmed")}
	}
	return nil
}

// confirmName asks for the name of what is about to be lost and fails unless it
// is typed, or given by a script beside --yes.
func (a *app) confirmName(ctx context.Context, question, name, given string) error {
	switch {
	case a.flags.yes && given == name:
		return nil
	case a.flags.yes || given != "":
		return hintf(&statusError{exitDeclined, codeDeclined, errors.New("not confirmed: " + question)}, "give --yes and --confirm %s", name)
	case !a.interactive():
		return hintf(&statusError{exitDeclined, codeDeclined, fmt.Errorf("nobody can be asked: %s", question)}, "give --yes and --confirm %s", name)
	}
	answer, err := a.ask(ctx, question+" Type "+name, "")
	if err != nil {
		return err
	}
	if answer != name {
		return hintf(&statusError{exitDeclined, codeDeclined, errors.New("not confirmed")}, "that was not %s: nothing was changed", name)
	}
	return nil
}

// askPassphrase asks for a passphrase without showing it.
func (a *app) askPassphrase(ctx context.Context, question string) ([]byte, error) {
	fmt.Fprintf(a.io.Err, "%s: ", question)
	pass, err := a.io.Password(ctx)
	fmt.Fprintln(a.io.Err)
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	if err != nil {
		return nil, declined("no passphrase", "type it, or name its source with --passphrase-file, --passphrase-fd or --passphrase-command")
	}
	return pass, nil
}

// askNewPassphrase asks twice. An empty answer is none: the result is nil.
func (a *app) askNewPassphrase(ctx context.Context, what string) ([]byte, error) {
	first, err := a.askPassphrase(ctx, "Passphrase for "+what+" (empty for none)")
	if err != nil || len(first) == 0 {
		return nil, err
	}
	second, err := a.askPassphrase(ctx, "The same again")
	if err != nil {
		return nil, err
	}
	defer clear(second)
	if !bytes.Equal(first, second) {
		clear(first)
		return nil, declined("the two passphrases differ", "nothing was made: run it again")
	}
	return first, nil
}

// declined is the error of a question without the answer it needs.
func declined(what, hint string) error {
	return hintf(&statusError{exitDeclined, codeDeclined, errors.New(what)}, "%s", hint)
}

// interruptible reads from somebody who may never answer: the end of ctx ends
// the waiting. The read itself is left to end with the process.
func interruptible[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := read()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// readLine reads up to a line break and no further, so that what follows is
// left to whoever reads next.
func readLine(r io.Reader) (string, error) {
	var line []byte
	one := make([]byte, 1)
	for len(line) < answerLimit {
		n, err := r.Read(one)
		if n == 1 && one[0] == '\n' {
			return string(line), nil
		}
		line = append(line, one[:n]...)
		if err == io.EOF && len(line) > 0 {
			return string(line), nil
		}
		if err != nil {
			return "", err
		}
	}
	return "", fmt.Errorf("answer of more than %d bytes", answerLimit)
}
