package cli

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// printSchema prints the JSON Schema of a command's answers.
func (a *app) printSchema(answers []any) error {
	schema := schemaOf(answers)
	schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	schema["title"] = a.command
	text, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(a.io.Out, "%s\n", text)
	return err
}

// schemaOf describes a document of one of the given types. A command has
// several where it streams events.
func schemaOf(answers []any) map[string]any {
	if len(answers) == 1 {
		return schemaOfType(reflect.TypeOf(answers[0]))
	}
	var each []map[string]any
	for _, v := range answers {
		each = append(each, schemaOfType(reflect.TypeOf(v)))
	}
	return map[string]any{"anyOf": each}
}

var rawType = reflect.TypeFor[json.RawMessage]()

func schemaOfType(t reflect.Type) map[string]any {
	if t == rawType {
		return map[string]any{}
	}
	switch t.Kind() {
	case reflect.Pointer:
		schema := schemaOfType(t.Elem())
		schema["type"] = []any{schema["type"], "null"}
		return schema
	case reflect.Struct:
		return schemaOfStruct(t)
	case reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOfType(t.Elem())}
	case reflect.String:
		return map[string]any{"type": "string"}
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Int, reflect.Int64:
		return map[string]any{"type": "integer"}
	}
	panic(fmt.Sprintf("ace: internal error: no schema for %s", t))
}

func schemaOfStruct(t reflect.Type) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, m := range membersOf(t) {
		properties[m.name] = schemaOfType(m.of)
		if !m.optional {
			required = append(required, m.name)
		}
	}
	return map[string]any{"type": "object", "properties": properties, "required": required}
}

// member is a member of a JSON object, as encoding/json sees a struct.
type member struct {
	name     string
	of       reflect.Type
	optional bool
}

func membersOf(t reflect.Type) []member {
	var all []member
	for i := range t.NumField() {
		f := t.Field(i)
		if f.Anonymous {
			all = append(all, membersOf(f.Type)...)
			continue
		}
		name, rest, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" {
			all = append(all, member{name, f.Type, rest == "omitempty"})
		}
	}
	return all
}

// fieldNames returns the members that --fields takes.
func fieldNames(answers []any) (names []string) {
	for _, v := range answers {
		t := reflect.TypeOf(v)
		if t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		for _, m := range membersOf(t) {
			if !slices.Contains(names, m.name) {
				names = append(names, m.name)
			}
		}
	}
	return names
}

// checkFields refuses a member that no answer has: leaving it out in silence
// would look like a missing value.
func (a *app) checkFields(answers []any) error {
	names := fieldNames(answers)
	for _, f := range a.flags.fields {
		if slices.Contains(names, f) {
			continue
		}
		err := usagef("--fields: %s answers with no member %q", a.command, f)
		if near := nearest(f, names); near != "" {
			return hintf(err, "did you mean %s?", near)
		}
		return hintf(err, "--fields help lists them")
	}
	return nil
}

// printFields lists the members that --fields takes.
func (a *app) printFields(answers []any) error {
	for _, name := range fieldNames(answers) {
		if _, err := fmt.Fprintln(a.io.Out, name); err != nil {
			return err
		}
	}
	return nil
}
