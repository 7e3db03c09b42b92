package cli

// colorChoice says when output has colour.
type colorChoice string

const (
	colorAuto   colorChoice = "auto"
	colorAlways colorChoice = "always"
	colorNever  colorChoice = "never"
)

// ink is a way to write text: a select graphic rendition of a terminal.
type ink string

const (
	inkError   ink = "1;31" // bold red
	inkWarning ink = "33"   // yellow
	inkHint    ink = "36"   // cyan
	inkHead    ink = "1"    // bold
)

// paint writes text in ink on a stream that has colour. It is for words of this
// program alone: what others wrote has no ink.
func (a *app) paint(i ink, text string, tty bool) string {
	if !a.colored(tty) {
		return text
	}
	return "\x1b[" + string(i) + "m" + text + "\x1b[0m"
}

// colored reports whether a stream has colour. What was asked of this program wins
// over what was asked of all (no-color.org, bixense.com/clicolors), and that over
// what the stream is.
func (a *app) colored(tty bool) bool {
	force := a.io.env("CLICOLOR_FORCE")
	switch choice := colorChoice(a.flags.color); {
	case choice == colorAlways:
		return true
	case choice == colorNever, a.io.env("NO_COLOR") != "":
		return false
	case force != "" && force != "0":
		return true
	}
	return tty && a.io.env("TERM") != "dumb"
}
