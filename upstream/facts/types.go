package main

import (
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
)

// special are the types with a JSON form of their own: the reader knows them by name, their fields are not written.
var special = map[string]bool{
	"meta/v1.Time": true, "meta/v1.MicroTime": true, "meta/v1.FieldsV1": true,
	"util/intstr.IntOrString": true, "api/resource.Quantity": true, "runtime.RawExtension": true,
	"apiextensions/v1.JSON": true, "apiextensions/v1.JSONSchemaPropsOrArray": true,
	"apiextensions/v1.JSONSchemaPropsOrBool": true, "apiextensions/v1.JSONSchemaPropsOrStringArray": true,
}

// modules maps the start of an import path to its module; what remains is the short name of the package.
var modules = []struct{ prefix, module string }{
	{"k8s.io/api/", "k8s.io/api"},
	{"k8s.io/apimachinery/pkg/apis/", "k8s.io/apimachinery"},
	{"k8s.io/apimachinery/pkg/", "k8s.io/apimachinery"},
	{"k8s.io/apiextensions-apiserver/pkg/apis/", "k8s.io/apiextensions-apiserver"},
	{"k8s.io/kube-aggregator/pkg/apis/", "k8s.io/kube-aggregator"},
}

type typeWriter struct {
	markers map[string]*markers // by import path
	seen    map[reflect.Type]bool
	pending []reflect.Type
	// One block of lines per named type, by its key.
	blocks map[string]string
}

func writeTypes(out io.Writer) error {
	rows, err := kinds()
	if err != nil {
		return err
	}
	writer := &typeWriter{markers: map[string]*markers{}, seen: map[reflect.Type]bool{}, blocks: map[string]string{}}
	for _, row := range rows {
		group := row.version.Group
		if group == "" {
			group = "core"
		}
		fmt.Fprintf(out, "kind %s %s %s %s\n", group, row.version.Version, row.kind, key(row.goType))
		writer.visit(row.goType)
	}
	// The special schema types lead to their own schemas.
	for len(writer.pending) > 0 {
		next := writer.pending[0]
		writer.pending = writer.pending[1:]
		if err := writer.named(next); err != nil {
			return fmt.Errorf("%s: %w", key(next), err)
		}
	}
	keys := make([]string, 0, len(writer.blocks))
	for name := range writer.blocks {
		keys = append(keys, name)
	}
	sort.Strings(keys)
	for _, name := range keys {
		io.WriteString(out, writer.blocks[name])
	}
	return nil
}

// key is a type's short unique name: "core/v1.Container".
func key(t reflect.Type) string {
	path := t.PkgPath()
	for _, module := range modules {
		if rest, ok := strings.CutPrefix(path, module.prefix); ok {
			return rest + "." + t.Name()
		}
	}
	return t.String()
}

func (w *typeWriter) visit(t reflect.Type) {
	if !w.seen[t] {
		w.seen[t] = true
		w.pending = append(w.pending, t)
	}
}

// expression writes a type as the reader parses it, and sees to it that the named types in it are written too.
func (w *typeWriter) expression(t reflect.Type) (string, error) {
	if t.PkgPath() != "" {
		if !special[key(t)] {
			w.visit(t)
		}
		return key(t), nil
	}
	switch t.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int32, reflect.Int64, reflect.Uint32, reflect.Uint64, reflect.Float64:
		return t.Kind().String(), nil
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes", nil
		}
		element, err := w.expression(t.Elem())
		return "[]" + element, err
	case reflect.Map:
		from, err := w.expression(t.Key())
		if err != nil {
			return "", err
		}
		to, err := w.expression(t.Elem())
		return "map[" + from + "]" + to, err
	case reflect.Pointer:
		to, err := w.expression(t.Elem())
		return "*" + to, err
	case reflect.Interface:
		if t.NumMethod() == 0 {
			return "any", nil
		}
	}
	return "", fmt.Errorf("no expression for %s", t)
}

// named writes the block of one named type.
func (w *typeWriter) named(t reflect.Type) error {
	found, err := w.markersOf(t)
	if err != nil {
		return err
	}
	name := key(t)
	if hasJSONMethods(t) {
		return fmt.Errorf("decodes itself and is not known as special")
	}
	var block strings.Builder
	switch t.Kind() {
	case reflect.Struct:
		fmt.Fprintf(&block, "struct %s", name)
		if value := found.types[t.Name()].last("structType"); value != "" {
			fmt.Fprintf(&block, " structType=%s", value)
		}
		if value := found.types[t.Name()].last("mapType"); value != "" {
			fmt.Fprintf(&block, " mapType=%s", value)
		}
		block.WriteByte('\n')
		for i := range t.NumField() {
			line, err := w.field(t.Field(i), found.fields[t.Name()][t.Field(i).Name], found)
			if err != nil {
				return fmt.Errorf("%s: %w", t.Field(i).Name, err)
			}
			block.WriteString(line)
		}
	case reflect.Slice, reflect.Map:
		var expression string
		if t.Kind() == reflect.Slice {
			element, err := w.expression(t.Elem())
			if err != nil {
				return err
			}
			expression = "[]" + element
		} else {
			from, err := w.expression(t.Key())
			if err != nil {
				return err
			}
			to, err := w.expression(t.Elem())
			if err != nil {
				return err
			}
			expression = "map[" + from + "]" + to
		}
		fmt.Fprintf(&block, "alias %s %s", name, expression)
		// Such a list is a message of its own in protobuf, with the elements in its field 1.
		if t.Kind() == reflect.Slice && found.types[t.Name()].has("protobuf.nullable") {
			block.WriteString(" message")
		}
		block.WriteByte('\n')
	default:
		fmt.Fprintf(&block, "alias %s %s", name, t.Kind())
		set := found.types[t.Name()]
		if t.Kind() == reflect.String && (set.has("enum") || set.has("k8s:enum")) {
			values := found.strings[t.Name()]
			for _, value := range values {
				if strings.ContainsAny(value, "|\n") {
					return fmt.Errorf("enum value %q cannot be written", value)
				}
			}
			fmt.Fprintf(&block, " enum=%s", strings.Join(values, "|"))
		}
		block.WriteByte('\n')
	}
	w.blocks[name] = block.String()
	return nil
}

func hasJSONMethods(t reflect.Type) bool {
	for _, method := range []string{"UnmarshalJSON", "MarshalJSON", "UnmarshalText", "MarshalText"} {
		if _, ok := reflect.PointerTo(t).MethodByName(method); ok {
			return true
		}
	}
	return false
}

// field writes one line: the JSON name, the Go name, the type, then what is known of it.
func (w *typeWriter) field(field reflect.StructField, set markerSet, found *markers) (string, error) {
	tag, tagged := field.Tag.Lookup("json")
	if tag == "-" {
		return "", nil
	}
	if !tagged {
		return "", fmt.Errorf("has no json tag")
	}
	if len(field.Tag.Get("protobuf")) == 0 && field.PkgPath != "" {
		return "", fmt.Errorf("is not exported")
	}
	name, options, _ := strings.Cut(tag, ",")
	expression, err := w.expression(field.Type)
	if err != nil {
		return "", err
	}
	line := []string{name, field.Name, expression}
	if name == "" {
		// Only an embedded struct has its fields on the level of its holder.
		if !field.Anonymous || field.Type.Kind() != reflect.Struct {
			return "", fmt.Errorf("has no JSON name")
		}
		line[0] = "-"
		line = append(line, "inline")
	} else {
		for _, option := range strings.Split(options, ",") {
			switch option {
			case "omitempty", "omitzero":
				line = append(line, option)
			case "":
			default:
				return "", fmt.Errorf("unknown json option %q", option)
			}
		}
	}
	if proto := field.Tag.Get("protobuf"); proto != "" {
		parts := strings.Split(proto, ",")
		fact := "proto=" + parts[1] + "," + parts[0]
		for _, part := range parts[2:] {
			if part == "rep" || part == "packed" {
				fact += "," + part
			}
		}
		line = append(line, fact)
	}
	for _, option := range []string{"patchStrategy", "patchMergeKey"} {
		if value := field.Tag.Get(option); value != "" {
			line = append(line, option+"="+value)
		}
	}
	for _, option := range []string{"listType", "mapType", "structType"} {
		if value := set.last(option); value != "" {
			line = append(line, option+"="+value)
		}
	}
	if keys := set["listMapKey"]; len(keys) > 0 {
		line = append(line, "listMapKey="+strings.Join(keys, ","))
	}
	if set.has("required") || set.has("k8s:required") {
		line = append(line, "required")
	}
	if set.has("optional") || set.has("k8s:optional") {
		line = append(line, "optional")
	}
	if set.has("nullable") {
		line = append(line, "nullable")
	}
	if set.has("default") {
		value, err := found.defaultValue(set.last("default"))
		if err != nil {
			return "", err
		}
		line = append(line, "default="+value)
	}
	return " " + strings.Join(line, " ") + "\n", nil
}

func (w *typeWriter) markersOf(t reflect.Type) (*markers, error) {
	path := t.PkgPath()
	if found, ok := w.markers[path]; ok {
		return found, nil
	}
	for _, module := range modules {
		if !strings.HasPrefix(path, module.prefix) {
			continue
		}
		version, err := moduleVersion(module.module)
		if err != nil {
			return nil, err
		}
		directory, err := moduleDirectory(module.module + "@" + version)
		if err != nil {
			return nil, err
		}
		rest := strings.TrimPrefix(strings.TrimPrefix(path, module.module), "/")
		found, err := readMarkers(filepath.Join(directory, filepath.FromSlash(rest)))
		if err != nil {
			return nil, err
		}
		w.markers[path] = found
		return found, nil
	}
	return nil, fmt.Errorf("%s is in no module known here", path)
}
