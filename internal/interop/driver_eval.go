package interop

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/ace-toolkit/ace/core/wire"
)

const (
	// maxEvalLine bounds the memory that one line takes; the largest input
	// that means anything, a packet with a full payload, is a tenth of it.
	maxEvalLine = 32 << 20
	// maxEvalDepth parses a line whose object is too deep by its own bound,
	// which the evaluator has to find: it sits some levels down in the line.
	maxEvalDepth = 8 * wire.MaxJSONDepth
)

// evalStream answers each line of r, {"kind", "input", "now"}, with one line on
// w. A line it cannot make sense of has an answer like any other, and nothing
// but a failing reader or writer ends the stream.
func evalStream(r io.Reader, w, stderr io.Writer) error {
	lines := bufio.NewReaderSize(r, 1<<16)
	var buf []byte
	for {
		line, err := readLine(lines, buf[:0])
		if err != nil && (!errors.Is(err, io.EOF) || len(line) == 0) {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if writeErr := printLine(w, answer(line, stderr)); writeErr != nil {
			return writeErr
		}
		if err != nil {
			return nil
		}
		buf = line
	}
}

// readLine reads one line, with its end, into buf. Of a line longer than
// maxEvalLine it keeps one byte more than that.
func readLine(r *bufio.Reader, buf []byte) ([]byte, error) {
	for {
		part, err := r.ReadSlice('\n')
		if room := maxEvalLine + 1 - len(buf); len(part) > room {
			part = part[:room]
		}
		buf = append(buf, part...)
		if !errors.Is(err, bufio.ErrBufferFull) {
			return buf, err
		}
	}
}

// answer evaluates one line. A panic is a bug of an evaluator, reported on
// stderr, and no reason to leave the rest unanswered.
func answer(line []byte, stderr io.Writer) (result wire.Value) {
	cannot := facts(str("error", errCannotEvaluate.Error()))
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(stderr, "ace interop eval: %v\n", p)
			result = cannot
		}
	}()
	if len(line) > maxEvalLine {
		return cannot
	}
	v, err := wire.Parse(line, maxEvalDepth)
	if err != nil {
		return cannot
	}
	r := wire.NewReader(v, "line")
	kind, input := r.String("kind"), r.Value("input")
	now, _ := r.Optional("now")
	if r.Close() != nil {
		return cannot
	}
	return Evaluate(kind, input, now)
}
