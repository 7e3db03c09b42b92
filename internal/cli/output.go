package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/itchyny/gojq"
)

// result is the answer of a command. Its JSON form is the contract; text is a
// rendering of the same value.
type result interface {
	// text writes the answer for people.
	text(p *page)
}

// page renders text: aligned on a terminal, tab-separated in a pipe.
type page struct {
	w      io.Writer
	app    *app
	headed bool // the first line has the titles of columns
}

// print writes the one answer of a command to standard output.
func (a *app) print(r result) error {
	if a.flags.json {
		return a.printJSON(r)
	}
	p := &page{w: a.io.Out, app: a}
	if !a.io.OutTTY {
		r.text(p)
		return nil
	}
	var aligned bytes.Buffer
	columns := tabwriter.NewWriter(&aligned, 0, 8, 2, ' ', 0)
	p.w = columns
	r.text(p)
	if err := columns.Flush(); err != nil {
		return err
	}
	return a.writeAligned(aligned.Bytes(), p.headed)
}

// writeAligned writes columns that are aligned already: ink has no width, which
// the aligning would not know.
func (a *app) writeAligned(text []byte, headed bool) error {
	if head, rest, ok := bytes.Cut(text, []byte("\n")); ok && headed {
		_, err := fmt.Fprintf(a.io.Out, "%s\n%s", a.paint(inkHead, string(head), a.io.OutTTY), rest)
		return err
	}
	_, err := a.io.Out.Write(text)
	return err
}

// printJSON writes one JSON document on one line, after --fields and --jq.
func (a *app) printJSON(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(a.flags.fields) == 0 && a.flags.query == nil {
		return a.writeJSON(data)
	}
	var doc any
	if err := json.Unmarshal(data, &doc); err != nil {
		return err
	}
	if len(a.flags.fields) > 0 {
		doc = selectFields(doc, a.flags.fields)
	}
	if a.flags.query != nil {
		return a.printQuery(doc)
	}
	if data, err = json.Marshal(doc); err != nil {
		return err
	}
	return a.writeJSON(data)
}

func (a *app) writeJSON(data []byte) error {
	_, err := fmt.Fprintf(a.io.Out, "%s\n", cleanJSON(data))
	return err
}

// printQuery writes what --jq makes of a document: the strings themselves, made
// safe where a terminal would act on them, and the rest as JSON.
func (a *app) printQuery(doc any) error {
	iter := a.flags.query.Run(doc)
	for {
		v, ok := iter.Next()
		if !ok {
			return nil
		}
		if halt, isHalt := v.(*gojq.HaltError); isHalt && halt.Value() == nil {
			return nil
		}
		if err, isErr := v.(error); isErr {
			return usagef("--jq: %v", err)
		}
		text, isString := v.(string)
		if !isString {
			data, err := gojq.Marshal(v)
			if err != nil {
				return err
			}
			text = string(cleanJSON(data))
		}
		if isString && a.io.OutTTY {
			text = clean(text, true)
		}
		if _, err := fmt.Fprintln(a.io.Out, text); err != nil {
			return err
		}
	}
}

// selectFields keeps the named members of an object, or of every object of a
// list.
func selectFields(doc any, names []string) any {
	switch v := doc.(type) {
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = selectFields(item, names)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for _, name := range names {
			if m, ok := v[name]; ok {
				out[name] = m
			}
		}
		return out
	}
	return doc
}

// row writes one line of columns.
func (p *page) row(columns ...string) {
	fmt.Fprintln(p.w, strings.Join(columns, "\t"))
}

// head writes the titles of columns, on a terminal only.
func (p *page) head(titles ...string) {
	if p.app.io.OutTTY {
		p.headed = true
		p.row(titles...)
	}
}

// line writes one formatted line.
func (p *page) line(format string, args ...any) {
	fmt.Fprintf(p.w, format+"\n", args...)
}

// id shows an ACE ID: whole in a pipe, shortened on a terminal.
func (p *page) id(aceID string) string {
	if p.app.io.OutTTY {
		return shortID(aceID)
	}
	return aceID
}

// time shows Unix seconds as the flags ask: by default relative on a terminal
// and RFC 3339 in a pipe.
func (p *page) time(t int64) string {
	style := p.app.flags.time
	if style == "" && p.app.io.OutTTY {
		style = timeRelative
	}
	return formatTime(t, p.app.io.Now(), style, p.app.flags.utc)
}

// timeOr shows a time that may be missing.
func (p *page) timeOr(t *int64) string {
	if t == nil {
		return "-"
	}
	return p.time(*t)
}

// number shows an integer.
func (p *page) number(n int64) string { return strconv.FormatInt(n, 10) }

// numberOr shows an integer that may be missing.
func (p *page) numberOr(n *int64, missing string) string {
	if n == nil {
		return missing
	}
	return p.number(*n)
}

// peer shows a peer by the name you gave it, else by its ACE ID.
func (p *page) peer(aceID string, name *string) string {
	if name != nil {
		return clean(*name, false)
	}
	return p.id(aceID)
}

// peerFull shows a peer by both.
func (p *page) peerFull(aceID string, name *string) string {
	if name != nil {
		return clean(*name, false) + " (" + aceID + ")"
	}
	return aceID
}

// messageID shows a message ID: whole in a pipe, on a terminal the part that is
// enough for ace read and ace outbox show.
func (p *page) messageID(id string) string {
	if p.app.io.OutTTY && len(id) > messageIDShown {
		return id[:messageIDShown]
	}
	return id
}

const messageIDShown = 8

// quote shows text of others as the last column of a line: cleaned, on one
// line, and on a terminal cut to half of its width.
func (p *page) quote(text string) string {
	text = clean(strings.Join(strings.Fields(text), " "), false)
	most := p.app.io.Columns / 2
	if runes := []rune(text); p.app.io.OutTTY && most > 8 && len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}

// printList is print for a list, which may be asked to fail when it is empty.
func (a *app) printList(r result, length int, failEmpty bool) error {
	if err := a.print(r); err != nil {
		return err
	}
	if length == 0 && failEmpty {
		return &statusError{exitEmpty, codeEmpty, errors.New("nothing found")}
	}
	return nil
}
