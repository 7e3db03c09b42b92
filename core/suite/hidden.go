package suite

// hidden holds a pointer to secret data where no printer follows it. fmt walks
// into unexported fields without asking for a Formatter, and dereferences a
// plain pointer there when the verb does not suit it (%s of a pointer); it
// stops at a function. A struct with such a field is incomparable as well.
type hidden[T any] func() *T

func hide[T any](v *T) hidden[T] { return func() *T { return v } }
