package core_test

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/ace-toolkit/ace/core"
	"github.com/ace-toolkit/ace/core/descriptor"
	"github.com/ace-toolkit/ace/core/fault"
	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/profile"
	"github.com/ace-toolkit/ace/core/profile/commerce"
	"github.com/ace-toolkit/ace/core/wire"
	"github.com/ace-toolkit/ace/relaysvc"
)

// Two agents, a relay between them, and a message with its signed receipt.
func Example() {
	ctx := context.Background()
	relay, stop := startRelay()
	defer stop()
	alice, bob := join(ctx, relay), join(ctx, relay)
	defer alice.Close()
	defer bob.Close()

	// Bob's card says that strangers may ask for contact, and his configuration
	// that those who want to exchange texts are accepted without asking him.
	check(alice.Connect(ctx, bob.ACEID(), profile.TextID, "it is Alice"))
	check(bob.Pull(ctx, 0, nil))
	check(alice.Pull(ctx, 0, nil))

	// From here on the message cannot get lost, whatever happens to this program.
	out := check(alice.Enqueue(ctx, core.OutMessage{To: bob.ACEID(), Body: profile.TextBody("hello")}))
	check(alice.Attempt(ctx, out.MessageID))
	check(bob.Pull(ctx, 0, func(e core.Event) {
		if e.Message != nil {
			fmt.Println("bob reads:", profile.TextOf(e.Message.Body))
		}
	}))
	check(alice.Pull(ctx, 0, func(e core.Event) {
		if e.Receipt != nil {
			fmt.Println("alice knows:", e.Receipt.Outcome)
		}
	}))
	// Output:
	// bob reads: hello
	// alice knows: delivered
}

// An agent that answers every text, and somebody who waits for an answer.
func ExampleEndpoint_Listen() {
	ctx, end := context.WithCancel(context.Background())
	relay, stop := startRelay()
	defer stop()
	echo, alice := join(ctx, relay), join(ctx, relay)
	defer alice.Close()
	defer echo.Close()

	ended := make(chan error, 1)
	go func() {
		ended <- echo.Listen(ctx, func(e core.Event) {
			if e.Message == nil {
				return
			}
			answer := core.OutMessage{
				To: e.Message.From, Body: profile.TextBody("echo: " + profile.TextOf(e.Message.Body)),
				RequestID: e.Message.MessageID, // a message that comes twice is answered once
			}
			out := check(echo.Enqueue(ctx, answer))
			check(echo.Attempt(ctx, out.MessageID))
		})
	}()

	check(alice.Connect(ctx, echo.ACEID(), profile.TextID, ""))
	heard := make(chan string, 1)
	sent := false
	listening, enough := context.WithCancel(ctx)
	err := alice.Listen(listening, func(e core.Event) {
		switch {
		case e.Contact != nil && !sent: // the echo agent has accepted
			sent = true
			out := check(alice.Enqueue(ctx, core.OutMessage{To: echo.ACEID(), Body: profile.TextBody("hello")}))
			check(alice.Attempt(ctx, out.MessageID))
		case e.Message != nil:
			heard <- profile.TextOf(e.Message.Body)
			enough()
		}
	})
	end()
	fmt.Println(<-heard, err, <-ended)
	// Output: echo: hello <nil> <nil>
}

// A trade from the first question to the thing itself. A message refers to the one
// it answers, and each end says which messages its thread takes next. What is paid,
// and whether, is for the two programs to decide: no message of this profile does.
func Example_commerce() {
	ctx := context.Background()
	relay, stop := startRelay()
	defer stop()
	buyer, seller := join(ctx, relay, profile.CommerceID), join(ctx, relay, profile.CommerceID)
	defer buyer.Close()
	defer seller.Close()
	check(buyer.Connect(ctx, seller.ACEID(), profile.CommerceID, ""))
	check(seller.Pull(ctx, 0, nil))
	check(buyer.Pull(ctx, 0, nil))

	// say sends a message of the thread and waits for its receipt: until then the
	// thread is busy.
	say := func(from, to *core.Endpoint, messageType string, members ...string) {
		body := []wire.Member{}
		for i := 0; i < len(members); i += 2 {
			body = append(body, wire.M(members[i], wire.NewString(members[i+1])))
		}
		if member, answered, _ := from.Reference(ctx, to.ACEID(), "logo", messageType); member != "" {
			body = append(body, wire.M(member, wire.NewString(answered)))
		}
		out := check(from.Enqueue(ctx, core.OutMessage{
			To: to.ACEID(), Type: messageType, ThreadID: "logo", Body: wire.NewObject(body...),
		}))
		check(from.Attempt(ctx, out.MessageID))
		check(to.Pull(ctx, 0, nil))
		check(from.Pull(ctx, 0, nil))
	}
	say(buyer, seller, commerce.RFQ, "need", "a logo", "maxPrice", "100", "currency", "USDC")
	say(seller, buyer, commerce.Offer, "price", "80", "currency", "USDC")
	say(buyer, seller, commerce.Accept)

	thread := check(buyer.Threads(ctx, seller.ACEID()))[0]
	fmt.Println("the", thread.Role, "sees:", thread.State)
	for _, next := range thread.Next {
		fmt.Println("next, from the", next.By, next.Type)
	}
	_, err := buyer.Enqueue(ctx, core.OutMessage{To: seller.ACEID(), Type: commerce.Reject, ThreadID: "logo", Body: wire.NewObject()})
	fmt.Println("too late to decline:", fault.CodeOf(err))

	say(seller, buyer, commerce.Deliver, "type", "reference", "uri", "https://seller.example/logo.svg")
	say(buyer, seller, commerce.Confirm)
	fmt.Println("in the end:", check(seller.Threads(ctx, ""))[0].State)
	// Output:
	// the buyer sees: accepted
	// next, from the seller ace:commerce:invoice:1
	// next, from the buyer ace:commerce:payment:1
	// next, from the seller ace:commerce:deliver:1
	// too late to decline: transition_not_allowed
	// in the end: confirmed
}

// What an agent has published can be kept and verified later, without a network.
func Example_offline() {
	ctx := context.Background()
	relay, stop := startRelay()
	defer stop()
	alice, bob := join(ctx, relay), join(ctx, relay)
	defer alice.Close()
	defer bob.Close()
	kept := check(alice.Lookup(ctx, bob.ACEID())).Descriptor.Raw()

	now, options := time.Now().Unix(), descriptor.Options{URLs: wire.Development}
	agent := check(descriptor.Verify(kept, now, options))
	fmt.Println(agent.ACEID == bob.ACEID(), agent.Relays[0] == relay, agent.Profiles[0].ID)

	_, err := descriptor.Verify(kept, agent.ExpiresAt, options)
	fmt.Println(fault.CodeOf(err))
	_, err = descriptor.Verify(bytes.Replace(kept, []byte(profile.TextID), []byte("ace:text:2"), 1), now, options)
	fmt.Println(fault.CodeOf(err))
	// Output:
	// true true ace:text:1
	// invalid_authorization
	// invalid_authorization
}

// join makes an agent that lives as long as this program. One that is to stay
// has its keys from package keystore and a StorePath. It speaks texts, or the
// profile that is named.
func join(ctx context.Context, relay string, profileID ...string) *core.Endpoint {
	spoken := profile.OfficialByID(append(profileID, profile.TextID)[0])
	endpoint := check(core.Open(ctx, core.Config{
		Identity: check(kel.Ephemeral(time.Now().Unix())),
		Relay:    relay,
		Profiles: []*profile.Manifest{spoken},
		Accept:   map[string]string{spoken.ID: spoken.Digest},
		Card:     descriptor.CardRecord{Contact: descriptor.ContactOpen},
		Loopback: true, // the relay of these examples is on this machine
	}))
	check(endpoint.Publish(ctx, core.PublishOptions{}))
	return endpoint
}

// startRelay runs a relay on this machine. Any other has an https URL.
func startRelay() (url string, stop func()) {
	dir := check(os.MkdirTemp("", "ace-example-"))
	listener := check(net.Listen("tcp", "127.0.0.1:0"))
	url = check(relaysvc.LoopbackURL(listener.Addr()))
	server := check(relaysvc.New(relaysvc.Config{Development: true, PublicURL: url, DBPath: filepath.Join(dir, "relay.db")}))
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	return url, func() {
		cancel()
		check(<-served, server.Close())
		check(dir, os.RemoveAll(dir))
	}
}

// check ends the program at the first error, which a real one would handle.
func check[T any](value T, err error) T {
	if err != nil {
		log.Panic(err)
	}
	return value
}
