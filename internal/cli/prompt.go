package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

// answerLimit bounds an answer typed at a prompt, in bytes.
const answerLimit = 4096

// ask asks a question on the terminal and returns the answer, or the default
// for an empty one.
func (a *app) ask(question, byDefault string) (string, error) {
	if byDefault != "" {
		question += " [" + byDefault + "]"
	}
	fmt.Fprintf(a.io.Err, "%s: ", question)
	line, err := readLine(a.io.In)
	if err != nil {
		return "", &statusError{exitDeclined, codeDeclined, errors.New("no answer")}
	}
	if line = strings.TrimSpace(line); line == "" {
		return byDefault, nil
	}
	return line, nil
}

// confirm asks for a yes and fails without one. Every yes or no question of
// the program is asked here.
func (a *app) confirm(question string) error {
	if a.flags.yes {
		return nil
	}
	if !a.interactive() {
		return &statusError{exitDeclined, codeDeclined, fmt.Errorf("%s: nobody to ask", question)}
	}
	answer, err := a.ask(question+" (y/N)", "")
	if err != nil {
		return err
	}
	if answer != "y" && answer != "yes" {
		return &statusError{exitDeclined, codeDeclined, errors.New("not confirmed")}
	}
	return nil
}

// askPassphrase asks for a passphrase without showing it.
func (a *app) askPassphrase(question string) ([]byte, error) {
	fmt.Fprintf(a.io.Err, "%s: ", question)
	pass, err := a.io.Password()
	fmt.Fprintln(a.io.Err)
	if err != nil {
		return nil, &statusError{exitDeclined, codeDeclined, errors.New("no passphrase")}
	}
	return pass, nil
}

// askNewPassphrase asks twice. An empty answer is none: the result is nil.
func (a *app) askNewPassphrase(what string) ([]byte, error) {
	first, err := a.askPassphrase("Passphrase for " + what + " (empty for none)")
	if err != nil || len(first) == 0 {
		return nil, err
	}
	second, err := a.askPassphrase("The same again")
	if err != nil {
		return nil, err
	}
	defer clear(second)
	if !bytes.Equal(first, second) {
		clear(first)
		return nil, &statusError{exitDeclined, codeDeclined, errors.New("the two passphrases differ")}
	}
	return first, nil
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
