package cli

import (
	"context"
	"io"
	"os"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/relaysvc"
)

// seededAnswer says what a relay began with.
type seededAnswer struct {
	Agents int `json:"agents"`
	Cards  int `json:"cards"`
}

// plant stores the documents of --seed.
func (d *devRun) plant(ctx context.Context, server *relaysvc.Server) error {
	documents, done, err := d.openSeed()
	if err != nil {
		return err
	}
	defer done()
	seeded, err := server.Seed(ctx, documents)
	if err != nil {
		return hintf(fault.Wrapf(fault.CodeOf(err), err, "--seed"), "the relay did not start: take the line out, or fetch the document anew")
	}
	if seeded.Elsewhere > 0 {
		d.warn("--seed: another relay than %s is named in %d of %s: whoever looks them up goes there",
			d.ready.URL, seeded.Elsewhere, count(seeded.Agents+seeded.Cards, "document"))
	}
	d.ready.Seeded = &seededAnswer{seeded.Agents, seeded.Cards}
	return nil
}

func (d *devRun) openSeed() (r io.Reader, done func(), err error) {
	if d.o.seed == "-" {
		return d.io.In, func() {}, nil
	}
	f, err := os.Open(d.o.seed)
	if err != nil {
		return nil, nil, usagef("--seed: %v", err)
	}
	if info, err := f.Stat(); err != nil || info.IsDir() {
		f.Close()
		return nil, nil, usagef("--seed: %s is a folder", d.o.seed)
	}
	return f, func() { f.Close() }, nil
}
