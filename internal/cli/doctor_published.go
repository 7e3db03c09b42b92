package cli

import (
	"context"
	"fmt"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/wire"
)

// staleDescriptor is how long before its end a descriptor was to be published anew,
// in seconds: upkeep does that with half of its life left.
const staleDescriptor = wire.MaxDescriptorLifetime/2 - overdueSeconds

// examinePublished looks at what this machine knows to be published.
func (c *checkup) examinePublished(ctx context.Context) {
	if c.session == nil {
		return
	}
	if c.session.relay == "" {
		c.add(severityWarning, "no_relay", "There is no relay yet: nobody can reach this identity.").
			advise("choose one: %s", c.ace("publish --relay URL"))
		return
	}
	st, err := c.session.Status(ctx, core.StatusOptions{Offline: true})
	if err != nil {
		c.failed(severityProblem, "descriptor", err)
		return
	}
	c.examineDescriptor(st)
	if st.UnconfirmedBlocks > 0 && !st.Withdrawn {
		c.add(severityWarning, "blocks", "The relay has not confirmed %s to block or unblock.", count(st.UnconfirmedBlocks, "decision")).
			command(c.ace("maintain"))
	}
}

func (c *checkup) examineDescriptor(st core.Status) {
	publish, left := c.ace("publish"), st.DescriptorExpires-c.now
	switch {
	case st.Withdrawn:
		c.add(severityNotice, "withdrawn", "You have unregistered the identity: nobody can reach it.").command(publish)
	case st.DescriptorExpires == 0:
		c.add(severityWarning, "descriptor", "Nothing is published yet: peers cannot find this identity.").command(publish)
	case left <= 0:
		c.add(severityProblem, "descriptor", "The published descriptor ended %s: peers cannot reach this identity.", ago(-left)).command(publish)
	case st.DescriptorStale:
		c.add(severityProblem, "descriptor", "The published descriptor is of an earlier key: peers cannot look this identity up.").command(publish)
	case left < staleDescriptor:
		c.add(severityWarning, "descriptor", "The published descriptor ends %s and was to be renewed before: neither ace listen nor ace maintain runs.", inSeconds(left)).
			command(c.ace("maintain"))
	default:
		c.ok("descriptor", "The published descriptor ends %s.", inSeconds(left))
	}
}

func ago(seconds int64) string       { return relative(-max(5, seconds)) }
func inSeconds(seconds int64) string { return relative(max(5, seconds)) }

// examineServed compares what the relay serves with what would be published now.
func (c *checkup) examineServed(ctx context.Context) {
	wanted, err := c.session.Draft()
	if err != nil {
		c.failed(severityProblem, "card", err)
		return
	}
	served, expires, err := c.session.Served(ctx)
	if err != nil {
		c.failed(severityProblem, "served", err)
		return
	}
	if expires == 0 {
		c.add(severityProblem, "served", "The relay serves no descriptor of this identity: peers cannot look it up.").command(c.ace("publish --force"))
		return
	}
	changes, err := compareDrafts(served, wanted)
	if err != nil {
		c.failed(severityProblem, "card", err)
		return
	}
	if len(changes) == 0 {
		c.ok("served", "The relay serves the descriptor and the card that would be published now; it ends %s.", inSeconds(expires-c.now))
		return
	}
	names := ""
	for _, change := range changes {
		names += " " + change.Member
	}
	c.add(severityWarning, "card", "The relay serves other values than your settings have:%s.", names).command(c.ace("publish"))
}

// examineHandle looks whether the handle leads here (04#card-record).
func (c *checkup) examineHandle(ctx context.Context) {
	address := handleAddress(c.id.settings.Handle, c.session.relay)
	if address == "" {
		return
	}
	id, err := c.session.Resolve(ctx, address)
	switch {
	case err != nil:
		c.failed(severityProblem, "handle", fmt.Errorf("%s: %w", address, err)).command(c.ace("publish --force"))
	case id != c.log.ACEID():
		c.add(severityProblem, "handle", "%s is the handle of %s at the relay.", address, id).
			advise("choose another: %s", c.ace("card set --handle NAME"))
	default:
		c.ok("handle", "%s leads to this identity.", address)
	}
}
