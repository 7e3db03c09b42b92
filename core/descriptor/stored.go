package descriptor

import (
	"errors"

	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/suite"
	"github.com/ace-toolkit/ace/core/wire"
)

// DecodeStored reads back the Raw of a PublishedAgent verified earlier, without
// its signatures, its times and the policy it was accepted under. What it
// returns has no State. Code: storage_failed.
func DecodeStored(raw []byte) (*PublishedAgent, error) {
	v, err := wire.Parse(raw, wire.MaxJSONDepth)
	if err != nil {
		return nil, corrupt(err)
	}
	a, err := decode(v, wire.Development)
	if err == nil {
		err = a.readEnd()
	}
	if err != nil {
		return nil, corrupt(err)
	}
	return a, nil
}

// DecodeStoredCard is [DecodeStored] for a CardBundle. Code: storage_failed.
func DecodeStoredCard(raw []byte) (*CardBundle, error) {
	v, err := wire.Parse(raw, wire.MaxJSONDepth)
	if err != nil {
		return nil, corrupt(err)
	}
	b, err := decodeCard(v, wire.Development)
	if err == nil {
		err = b.readEnd()
	}
	if err != nil {
		return nil, corrupt(err)
	}
	return b, nil
}

func corrupt(err error) error {
	return fault.Wrapf(fault.StorageFailed, err, "stored document")
}

// readEnd computes the hash of the last event of the kel (01#key-event-log).
func (d *document) readEnd() error {
	events := d.kel.Items()
	if len(events) == 0 {
		return errors.New("kel: no events")
	}
	b, err := kel.EventBytes(events[len(events)-1])
	if err != nil {
		return err
	}
	d.end = suite.Hex256(b)
	return nil
}
