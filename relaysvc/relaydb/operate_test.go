package relaydb_test

import (
	"testing"

	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// TestPurgeIsAnUnregisterByTheOperator: the queue is gone, and no registration
// up to then can be played back.
func TestPurgeIsAnUnregisterByTheOperator(t *testing.T) {
	d := newDB(t)
	registered(t, d, "alice")
	enqueue(t, d, packet("alice", "bob", "one"))
	must(t, d.Purge(ctx, "alice", now+1))
	refused(t, d.Purge(ctx, "alice", now+2), relaydb.NotRegistered)
	refused(t, d.Purge(ctx, "nobody", now), relaydb.Unknown)
	i, err := d.Identity(ctx, "alice")
	must(t, err)
	a, err := d.Account(ctx, "alice")
	must(t, err)
	if i.Registered || i.Barrier != now+1 || a.Entries != 0 || a.RetiredAt != now+1 {
		t.Fatalf("identity %+v, account %+v", i, a)
	}
}

// TestPurgeIsAboveARegistrationFromAhead: the clock of an identity may be some
// way ahead.
func TestPurgeIsAboveARegistrationFromAhead(t *testing.T) {
	d := newDB(t)
	registered(t, d, "alice")
	must(t, d.Purge(ctx, "alice", now-5))
	i, err := d.Identity(ctx, "alice")
	must(t, err)
	if i.Barrier != now {
		t.Fatalf("barrier %d", i.Barrier)
	}
}

func TestSuspendAndQuotaShowInTheAccount(t *testing.T) {
	d := newDB(t)
	registered(t, d, "alice")
	registered(t, d, "bob")
	must(t, d.Suspend(ctx, "alice", true))
	must(t, d.SetQuota(ctx, "bob", &relaydb.Quota{Entries: 5, Bytes: 1000}))
	refused(t, d.Suspend(ctx, "nobody", true), relaydb.Unknown)
	refused(t, d.SetQuota(ctx, "nobody", nil), relaydb.Unknown)
	all, err := d.Accounts(ctx, "", 10)
	must(t, err)
	if len(all) != 2 || !all[0].Suspended || all[1].Suspended || all[0].Quota != nil || all[1].Quota.Entries != 5 {
		t.Fatalf("accounts %+v", all)
	}
	rest, err := d.Accounts(ctx, "alice", 10)
	must(t, err)
	if len(rest) != 1 || rest[0].ACEID != "bob" {
		t.Fatalf("after alice: %+v", rest)
	}
	must(t, d.SetQuota(ctx, "bob", &relaydb.Quota{Entries: 6, Bytes: 2000}))
	if a, err := d.Account(ctx, "bob"); err != nil || *a.Quota != (relaydb.Quota{Entries: 6, Bytes: 2000}) {
		t.Fatalf("account %+v, %v", a, err)
	}
	must(t, d.Suspend(ctx, "alice", false))
	must(t, d.SetQuota(ctx, "bob", nil))
	a, err := d.Account(ctx, "alice")
	must(t, err)
	b, err := d.Account(ctx, "bob")
	must(t, err)
	if a.Suspended || b.Quota != nil {
		t.Fatalf("accounts %+v %+v", a, b)
	}
}

func TestReserveAndRelease(t *testing.T) {
	d := newDB(t)
	must(t, d.Reserve(ctx, "ad-min", "admin", now))
	must(t, d.Reserve(ctx, "admin", "admin", now))
	all, err := d.Handles(ctx, "", 10)
	must(t, err)
	if len(all) != 1 || all[0].Handle != "ad-min" || all[0].ACEID != "" {
		t.Fatalf("handles %+v", all)
	}
	must(t, d.Release(ctx, "admin"))
	refused(t, d.Release(ctx, "admin"), relaydb.Unknown)
}
