package admission

import (
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/wire"
)

// NoRevision is the previous revision of a peer that no block was ever decided
// about.
const NoRevision = -1

// NextRevision returns the revision of a block decision made at now (05#blocks):
// max(previous + 1, now), so that it outranks also the decisions of a store that
// was lost. Code: invalid_argument when that is no wire integer.
func NextRevision(previous, now int64) (int64, error) {
	next := max(previous+1, now)
	return next, fault.Wrapf(fault.InvalidArgument, wire.CheckTime(next), "block revision")
}
