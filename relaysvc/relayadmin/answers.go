package relayadmin

import "github.com/ace-toolkit/ace/relaysvc/relaydb"

// Status is the answer to GET /status.
type Status struct {
	PublicURL string `json:"public_url"`
	Data      string `json:"data"` // folder of its store
	PID       int    `json:"pid"`
	Draining  bool   `json:"draining"`
	Store     string `json:"store"` // StoreOK, or what broke it
	Streams   int    `json:"streams"`
	Now       int64  `json:"asked_at"`
}

// StoreOK is the state of a store that takes decisions.
const StoreOK = "ok"

// Identity is what the relay knows of an identity.
type Identity struct {
	ACEID        string  `json:"ace_id"`
	Handle       *string `json:"handle"`
	State        string  `json:"state"` // registered, suspended or unregistered
	Suspended    bool    `json:"suspended"`
	RegisteredAt int64   `json:"registered_at"`
	RetiredAt    *int64  `json:"retired_at"`
	Network      string  `json:"network"`
	StoredBytes  int64   `json:"stored_bytes"`
	Entries      int64   `json:"entries"`
	Bytes        int64   `json:"bytes"`
	Strangers    int64   `json:"strangers"`
	Quota        *Quota  `json:"quota"`
}

// The states of an identity.
const (
	StateRegistered   = "registered"
	StateSuspended    = "suspended"
	StateUnregistered = "unregistered"
)

// Quota bounds the queue of one identity.
type Quota struct {
	Entries int64 `json:"entries"`
	Bytes   int64 `json:"bytes"`
}

// Handle is a handle that is bound or reserved.
type Handle struct {
	Handle string  `json:"handle"`
	State  string  `json:"state"` // bound or reserved
	ACEID  *string `json:"ace_id"`
	At     int64   `json:"set_at"` // when it was bound or reserved
}

// Report is what a check of the store found.
type Report struct {
	Whole       bool     `json:"whole"`
	Generation  int64    `json:"generation"`
	Identities  int64    `json:"identities"`
	Entries     int64    `json:"entries"`
	Bytes       int64    `json:"bytes"`
	Quarantined int64    `json:"quarantined"`
	Problems    []string `json:"problems"`
}

// Backup is a copy of the store that was checked after it was made.
type Backup struct {
	Report
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
	Size   int64  `json:"size"`
}

// NewReport renders a report of the store.
func NewReport(r relaydb.Report) Report {
	return Report{
		Whole: len(r.Problems) == 0, Generation: r.Generation, Identities: r.Identities, Entries: r.Entries,
		Bytes: r.Bytes, Quarantined: r.Quarantined, Problems: append([]string{}, r.Problems...),
	}
}

func newIdentity(a relaydb.Account) Identity {
	i := Identity{
		ACEID: a.ACEID, Handle: optional(a.Handle), State: StateUnregistered, Suspended: a.Suspended, RegisteredAt: a.RegisteredAt,
		Network: a.Network, StoredBytes: a.Stored, Entries: a.Entries, Bytes: a.Bytes, Strangers: a.Strangers,
	}
	switch {
	case a.Registered && a.Suspended:
		i.State = StateSuspended
	case a.Registered:
		i.State = StateRegistered
	}
	if a.RetiredAt != 0 {
		i.RetiredAt = &a.RetiredAt
	}
	if a.Quota != nil {
		q := Quota(*a.Quota)
		i.Quota = &q
	}
	return i
}

func newHandle(h relaydb.Handle) Handle {
	if h.ACEID == "" {
		return Handle{Handle: h.Handle, State: "reserved", At: h.At}
	}
	return Handle{Handle: h.Handle, State: "bound", ACEID: &h.ACEID, At: h.At}
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
