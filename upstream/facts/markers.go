package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// markers holds what only the source says of a package: the +name=value lines in comments, and the constants of
// string types. Prose is not kept.
type markers struct {
	types   map[string]markerSet            // by type name
	fields  map[string]map[string]markerSet // by type name, then Go field name
	strings map[string][]string             // values of the string constants of a type, in source order
	values  map[string]string               // value of a string constant by its name
	aliases []alias                         // constants of a file that are others' under a type of this package
}

// alias is a constant that has its value from another package: Name = Type(other.Name).
type alias struct {
	typeName    string
	place       int // among the values of its type
	source      *ast.SelectorExpr
	packageName string
}

type markerSet map[string][]string

func (m markerSet) has(name string) bool { return len(m[name]) > 0 }

func (m markerSet) last(name string) string {
	if values := m[name]; len(values) > 0 {
		return values[len(values)-1]
	}
	return ""
}

// readMarkers parses the Go files of a package, without its tests.
func readMarkers(directory string) (*markers, error) {
	found := &markers{
		types:   map[string]markerSet{},
		fields:  map[string]map[string]markerSet{},
		strings: map[string][]string{},
		values:  map[string]string{},
	}
	entries, err := os.ReadDir(directory)
	if err != nil {
		return nil, err
	}
	files := token.NewFileSet()
	for _, entry := range entries {
		name := entry.Name()
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
			strings.HasPrefix(name, "zz_generated") || strings.HasPrefix(name, "generated.") {
			continue
		}
		file, err := parser.ParseFile(files, filepath.Join(directory, name), nil, parser.ParseComments)
		if err != nil {
			return nil, err
		}
		for _, declaration := range file.Decls {
			if general, ok := declaration.(*ast.GenDecl); ok {
				found.declaration(general, file.Comments, files)
			}
		}
		if err := found.resolve(file, directory); err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (m *markers) declaration(general *ast.GenDecl, comments []*ast.CommentGroup, files *token.FileSet) {
	for _, spec := range general.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			doc := spec.Doc
			if doc == nil {
				doc = general.Doc
			}
			set := markerSet{}
			set.add(doc)
			// A comment block of its own may stand above the documentation, with one empty line between.
			if doc != nil {
				set.add(blockAbove(doc, comments, files))
			}
			m.types[spec.Name.Name] = set
			if structure, ok := spec.Type.(*ast.StructType); ok {
				m.structure(spec.Name.Name, structure)
			}
		case *ast.ValueSpec:
			if general.Tok == token.CONST {
				m.constant(spec)
			}
		}
	}
}

func (m *markers) structure(name string, structure *ast.StructType) {
	fields := map[string]markerSet{}
	for _, field := range structure.Fields.List {
		set := markerSet{}
		set.add(field.Doc)
		for _, identifier := range field.Names {
			fields[identifier.Name] = set
		}
		// An embedded struct goes by the name of its type.
		switch embedded := field.Type.(type) {
		case *ast.Ident:
			if len(field.Names) == 0 {
				fields[embedded.Name] = set
			}
		case *ast.SelectorExpr:
			if len(field.Names) == 0 {
				fields[embedded.Sel.Name] = set
			}
		}
	}
	m.fields[name] = fields
}

func (m *markers) constant(spec *ast.ValueSpec) {
	for i, name := range spec.Names {
		if i >= len(spec.Values) {
			continue
		}
		value := spec.Values[i]
		typeName := ""
		if identifier, ok := spec.Type.(*ast.Ident); ok {
			typeName = identifier.Name
		}
		// The other spelling of a typed constant: Name = Type("value").
		if call, ok := value.(*ast.CallExpr); ok && len(call.Args) == 1 {
			if identifier, ok := call.Fun.(*ast.Ident); ok {
				typeName, value = identifier.Name, call.Args[0]
			}
		}
		if selector, ok := value.(*ast.SelectorExpr); ok && typeName != "" {
			if identifier, ok := selector.X.(*ast.Ident); ok {
				place := len(m.strings[typeName])
				m.strings[typeName] = append(m.strings[typeName], "")
				m.aliases = append(m.aliases, alias{typeName, place, selector, identifier.Name})
			}
			continue
		}
		literal, ok := value.(*ast.BasicLit)
		if !ok || literal.Kind != token.STRING {
			continue
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			continue
		}
		m.values[name.Name] = text
		if typeName != "" {
			m.strings[typeName] = append(m.strings[typeName], text)
		}
	}
}

// resolve looks up the constants of a file that have their value from another package of the same module. Others are
// no enumerations.
func (m *markers) resolve(file *ast.File, directory string) error {
	const module = "k8s.io/api/"
	root := filepath.Dir(filepath.Dir(directory))
	for _, alias := range m.aliases {
		value := ""
		for _, imported := range file.Imports {
			path, err := strconv.Unquote(imported.Path.Value)
			if err != nil {
				return err
			}
			name := filepath.Base(path)
			if imported.Name != nil {
				name = imported.Name.Name
			}
			if name != alias.packageName || !strings.HasPrefix(path, module) {
				continue
			}
			other, err := readMarkers(filepath.Join(root, filepath.FromSlash(strings.TrimPrefix(path, module))))
			if err != nil {
				return err
			}
			value = other.values[alias.source.Sel.Name]
		}
		if value == "" {
			return fmt.Errorf("%s: %s.%s has no value", directory, alias.packageName, alias.source.Sel.Name)
		}
		m.strings[alias.typeName][alias.place] = value
	}
	m.aliases = nil
	return nil
}

func blockAbove(doc *ast.CommentGroup, comments []*ast.CommentGroup, files *token.FileSet) *ast.CommentGroup {
	line := files.Position(doc.Pos()).Line
	for _, group := range comments {
		if files.Position(group.End()).Line == line-2 {
			return group
		}
	}
	return nil
}

func (m markerSet) add(doc *ast.CommentGroup) {
	if doc == nil {
		return
	}
	for _, comment := range doc.List {
		line := strings.TrimSpace(strings.TrimPrefix(comment.Text, "//"))
		if !strings.HasPrefix(line, "+") {
			continue
		}
		name, value, _ := strings.Cut(line[1:], "=")
		// A remark may follow on the same line.
		if name != "default" {
			value, _, _ = strings.Cut(value, " ")
		}
		name, _, _ = strings.Cut(name, " ")
		m[name] = append(m[name], strings.TrimSpace(value))
	}
}

// defaultValue is the value of a +default marker as JSON, with references to constants resolved.
func (m *markers) defaultValue(marker string) (string, error) {
	if reference, ok := strings.CutPrefix(marker, "ref("); ok {
		name := strings.TrimSuffix(reference, ")")
		value, ok := m.values[name]
		if !ok {
			return "", fmt.Errorf("default refers to %s, which is not a string constant here", name)
		}
		return strconv.Quote(value), nil
	}
	return marker, nil
}
