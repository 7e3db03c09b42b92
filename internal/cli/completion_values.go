package cli

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/ace-toolkit/ace/core/store"
	"github.com/ace-toolkit/ace/keystore"
)

// mostOffered is how many values of a kind a shell is offered.
const mostOffered = 50

// offered is a value and what it is, for a shell to show beside it.
type offered struct{ value, about string }

// complete offers values for the first so many arguments of a command, or for all
// (most < 0), and for the value of an option. It looks into files of this machine
// alone and asks for no passphrase: a shell waits for it.
func (a *app) complete(most int, values func(*app) []offered) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		if most >= 0 && len(args) >= most {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		// The environment and the configuration say where to look. What is wrong with
		// them is told when the command runs.
		if a.readEnv(cmd) != nil || a.readConfig(cmd) != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var list []string
		for _, v := range values(a) {
			if isHarmless(v.value) && strings.HasPrefix(v.value, typed) && !slices.Contains(args, v.value) {
				list = append(list, v.value+"\t"+clean(v.about, false))
			}
		}
		return list, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	}
}

// isHarmless reports whether a shell takes a value as it is. A peer that names a
// thread "$(…)" would otherwise have it typed.
func isHarmless(value string) bool {
	return value != "" && value[0] != '-' && !strings.ContainsFunc(value, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._:-@", r)
	})
}

// known returns what the store of the identity to act as knows by name.
func (a *app) known() store.Known {
	name, err := a.identityName()
	if err != nil || checkName(name) != nil {
		return store.Known{}
	}
	k, _ := store.ReadKnown(context.Background(), filepath.Join(a.identityDir(name), storeFile), mostOffered)
	return k // as far as it was read
}

// label names a peer beside a value.
func label(k store.Known, aceID string) string {
	for _, p := range k.Peers {
		if p[0] == aceID && p[1] != "" {
			return p[1]
		}
	}
	return shortID(aceID)
}

func peerValues(a *app) (list []offered) {
	for _, p := range a.known().Peers {
		if p[1] != "" {
			list = append(list, offered{p[1], shortID(p[0])})
		} else {
			list = append(list, offered{p[0], "no name yet"})
		}
	}
	return list
}

func threadValues(a *app) []offered {
	k := a.known()
	return labelled(k, k.Threads, "with ")
}

func receivedValues(a *app) []offered {
	k := a.known()
	return labelled(k, k.Received, "from ")
}

func sentValues(a *app) []offered {
	k := a.known()
	return labelled(k, k.Sent, "to ")
}

func labelled(k store.Known, pairs [][2]string, preposition string) (list []offered) {
	for _, p := range pairs {
		list = append(list, offered{p[0], preposition + label(k, p[1])})
	}
	return list
}

func identityValues(a *app) (list []offered) {
	names, _ := keystore.List(a.identitiesDir())
	for _, name := range names {
		list = append(list, offered{value: name})
	}
	return list
}

// profileValues offers what --profiles and ace profile take.
func profileValues(a *app) (list []offered) {
	known := official()
	if name, err := a.identityName(); err == nil {
		if s, err := readSettings(a.identityDir(name)); err == nil {
			if all, err := s.vocabulary(); err == nil {
				known = all
			}
		}
	}
	for _, m := range known[1:] {
		list = append(list, offered{value: m.ID})
	}
	return list
}

func codeValues(*app) (list []offered) {
	for _, e := range explanations() {
		list = append(list, offered{e.Code, e.Meaning})
	}
	return list
}

// fixed offers values that are always the same.
func fixed(values ...string) func(*app) []offered {
	return func(*app) (list []offered) {
		for _, v := range values {
			list = append(list, offered{value: v})
		}
		return list
	}
}

// completeOption offers values for an option of a command.
func (a *app) completeOption(c *cobra.Command, option string, values func(*app) []offered) {
	// The option was added just before, so registering cannot fail.
	_ = c.RegisterFlagCompletionFunc(option, a.complete(-1, values))
}
