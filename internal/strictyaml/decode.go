// Package strictyaml is the one path from a YAML or JSON file to a struct: strict, with the place of every fault, and
// all faults at once. The text is parsed by goccy/go-yaml; its own strict decoding stops at the first fault, and
// positions are lost once values are decoded, so the walk from syntax tree to struct is here.
//
// Fields are named by their yaml tags, nested structs, pointers, lists and maps with text keys included. Durations are
// texts such as "5s". A null keeps the default. Paths are written as "endpoints[2].url".
package strictyaml

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/token"
)

// maxNodes bounds the values of one file, aliases followed, so that a few lines of aliases cannot fill the memory.
const maxNodes = 250_000

// Scalar stores what a plain text means where a struct is wanted; into is a pointer to the struct.
type Scalar func(into any, text string) error

// Options adjust decoding.
type Options struct {
	Scalars map[string]Scalar // by type as %T prints it, such as "policy.Config"
	Others  map[string]string // names that other programs have for keys
	Foreign map[string]string // keys at the top of other programs' files, and what to do with such a file
}

// Places knows where each value of a file stands.
type Places struct {
	file  string
	at    map[string]token.Position
	wrong map[string]bool // paths that have a fault already
}

// Decode stores the document in data into the struct that out points to, over what it holds already. Faults are *Fault,
// joined into one error; what has no fault is stored all the same. The Places are never nil.
func Decode(file string, data []byte, out any, o Options) (*Places, error) {
	d := &decoder{
		options: o, root: reflect.TypeOf(out).Elem(),
		places:  &Places{file: file, at: map[string]token.Position{}, wrong: map[string]bool{}},
		anchors: map[string]ast.Node{}, opening: map[string]bool{},
	}
	tree, err := Parse(file, data)
	if err != nil {
		return d.places, err
	}
	if len(tree.Docs) > 1 {
		if second := tree.Docs[1]; second.Body != nil {
			d.fault("", second.Body, "a second document; one file holds one")
		}
	}
	if len(tree.Docs) > 0 && tree.Docs[0].Body != nil {
		ast.Walk(anchorFinder{d}, tree.Docs[0].Body)
		d.value("", tree.Docs[0].Body, reflect.ValueOf(out).Elem())
	}
	return d.places, errors.Join(d.faults...)
}

type decoder struct {
	options Options
	root    reflect.Type
	places  *Places
	anchors map[string]ast.Node
	opening map[string]bool // aliases being followed
	nodes   int
	faults  []error
}

type anchorFinder struct{ d *decoder }

// Visit remembers anchors.
func (f anchorFinder) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok {
		f.d.anchors[a.Name.GetToken().Value] = a.Value
	}
	return f
}

func (d *decoder) fault(path string, at ast.Node, format string, args ...any) {
	f := &Fault{File: d.places.file, Path: path, Err: fmt.Errorf(format, args...)}
	if p := positionOf(at); p != nil {
		f.Line, f.Column = p.Line, p.Column
	}
	d.places.wrong[path] = true
	d.faults = append(d.faults, f)
}

// ownTags are those that say of a value no more than what is expected of it. Others ask a program to make a value of
// what follows, such as the name of a variable (!env_var KEY), which would be taken for the value.
var ownTags = []string{"!", "!!str", "!!int", "!!float", "!!bool", "!!null", "!!seq", "!!map"}

// resolve follows anchors, aliases and tags to the value they stand for; nil after a fault. The returned function must
// be called when the value has been stored.
func (d *decoder) resolve(path string, n ast.Node) (ast.Node, func()) {
	var opened []string
	done := func() {
		for _, name := range opened {
			delete(d.opening, name)
		}
	}
	for {
		switch v := n.(type) {
		case *ast.AnchorNode:
			n = v.Value
		case *ast.TagNode:
			if tag := v.Start.Value; !slices.Contains(ownTags, tag) {
				d.fault(path, v, "%sthe tag %s means nothing here; write the value itself", label(path), tag)
				return nil, done
			}
			n = v.Value
		case *ast.AliasNode:
			name := v.Value.GetToken().Value
			target, ok := d.anchors[name]
			if !ok || d.opening[name] {
				d.fault(path, v, "%sthe alias *%s stands for nothing or for itself", label(path), name)
				return nil, done
			}
			d.opening[name] = true
			opened = append(opened, name)
			n = target
		default:
			return n, done
		}
	}
}

func (d *decoder) value(path string, n ast.Node, out reflect.Value) {
	if d.nodes++; d.nodes >= maxNodes {
		if d.nodes == maxNodes {
			d.fault(path, n, "more than %d values", maxNodes)
		}
		return
	}
	n, done := d.resolve(path, n)
	defer done()
	if n == nil {
		return
	}
	if p := positionOf(n); p != nil {
		if _, known := d.places.at[path]; !known {
			d.places.at[path] = *p
		}
	}
	if _, null := n.(*ast.NullNode); null {
		return
	}
	if out.Kind() == reflect.Pointer {
		fresh := reflect.New(out.Type().Elem())
		before := len(d.faults)
		if d.value(path, n, fresh.Elem()); len(d.faults) == before {
			out.Set(fresh)
		}
		return
	}
	if text, ok := scalar(n); ok {
		d.scalar(path, n, text, out)
		return
	}
	switch {
	case out.Kind() == reflect.Struct && !isText(out):
		d.structure(path, n, out)
	case out.Kind() == reflect.Map:
		d.mapping(path, n, out)
	case out.Kind() == reflect.Slice && !isText(out):
		d.list(path, n, out)
	default:
		d.want(path, n, out.Type())
	}
}

// want reports a value of another shape than its setting has, and how to write that shape.
func (d *decoder) want(path string, n ast.Node, t reflect.Type) {
	d.fault(path, n, "%swant %s, got %s%s", label(path), Wants(t), describe(n), d.instead(n, t))
}

// instead is how a list or a mapping is written in the place of n; "" where that is plain.
func (d *decoder) instead(n ast.Node, t reflect.Type) string {
	text, plain := scalar(n)
	plain = plain && len(text) <= mostShown && !strings.ContainsFunc(text, unicode.IsControl)
	switch {
	case t.Kind() == reflect.Slice && plain:
		item := t.Elem()
		if _, takes := d.options.Scalars[item.String()]; item.Kind() == reflect.Struct && !takes {
			return "; an item has keys: " + keysOf(item)
		}
		return "; write [" + text + "]"
	case t.Kind() == reflect.Slice:
		return `; put "- " in front of it`
	case t.Kind() == reflect.Struct:
		return "; its keys: " + keysOf(t)
	}
	return ""
}

func keysOf(t reflect.Type) string {
	var names []string
	for _, f := range Fields(t) {
		names = append(names, f.Name)
	}
	if len(names) > mostListed {
		names = append(names[:mostListed], "...")
	}
	return strings.Join(names, ", ")
}

func (d *decoder) scalar(path string, n ast.Node, text string, out reflect.Value) {
	if special, ok := d.options.Scalars[out.Type().String()]; ok {
		if err := special(out.Addr().Interface(), text); err != nil {
			d.fault(path, n, "%s%w", label(path), err)
		}
		return
	}
	if !isText(out) && (out.Kind() == reflect.Struct || out.Kind() == reflect.Map ||
		out.Kind() == reflect.Slice && out.Type().Elem().Kind() != reflect.String) {
		d.want(path, n, out.Type())
		return
	}
	kind := n.GetToken().Type
	quoted := kind == token.SingleQuoteType || kind == token.DoubleQuoteType
	if k := out.Kind(); quoted && (isNumber(k) && !isText(out) || k == reflect.Bool) && out.Type() != durationType {
		d.want(path, n, out.Type())
		return
	}
	if err := Set(out, text); err != nil {
		d.fault(path, n, "%s%w", label(path), err)
	}
}

func (d *decoder) structure(path string, n ast.Node, out reflect.Value) {
	fields := Fields(out.Type())
	d.entries(path, n, out.Type(), func(key string, keyNode ast.Node, v ast.Node) {
		for _, f := range fields {
			if f.Name == key {
				d.value(Join(path, key), v, out.FieldByIndex(f.Index))
				return
			}
		}
		if strings.HasSuffix(path, "]") {
			d.places.wrong[path] = true // what an entry of a list seems to lack may be misspelt
		}
		d.fault(Join(path, key), keyNode, "unknown key %q%s", key, d.suggestion(path, key, fields))
	})
}

func (d *decoder) mapping(path string, n ast.Node, out reflect.Value) {
	if out.Type().Key().Kind() != reflect.String {
		panic("strictyaml: map keys must be texts")
	}
	if out.IsNil() {
		out.Set(reflect.MakeMap(out.Type()))
	}
	d.entries(path, n, out.Type(), func(key string, _ ast.Node, v ast.Node) {
		item := reflect.New(out.Type().Elem()).Elem()
		d.value(Join(path, key), v, item)
		out.SetMapIndex(reflect.ValueOf(key).Convert(out.Type().Key()), item)
	})
}

// entries calls do for each entry of a mapping, which is to become a t. A repeated key is a fault; keys merged by "<<"
// yield to those written out.
func (d *decoder) entries(
	path string, n ast.Node, t reflect.Type, do func(key string, keyNode, v ast.Node),
) {
	var values []*ast.MappingValueNode
	switch m := n.(type) {
	case *ast.MappingNode:
		values = m.Values
	case *ast.MappingValueNode:
		values = []*ast.MappingValueNode{m}
	default:
		d.want(path, n, t)
		return
	}
	seen := map[string]int{}
	for _, v := range values {
		key := keyText(v.Key)
		if v.Key.IsMergeKey() {
			d.places.wrong[path] = true
			d.fault(Join(path, "<<"), v.Key, "%smerge keys (<<) are not supported; write the values out", label(path))
			continue
		}
		at := Join(path, key)
		if line, dup := seen[key]; dup {
			d.fault(at, v.Key, "the key %q is given twice, first in line %d", key, line)
			continue
		}
		if p := positionOf(v.Key); p != nil {
			seen[key] = p.Line
			d.places.at[at] = *p
		}
		do(key, v.Key, v.Value)
	}
}

func (d *decoder) list(path string, n ast.Node, out reflect.Value) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		d.want(path, n, out.Type())
		return
	}
	list := reflect.MakeSlice(out.Type(), 0, min(len(seq.Values), 1024))
	for i, v := range seq.Values {
		item := reflect.New(out.Type().Elem()).Elem()
		d.value(path+"["+strconv.Itoa(i)+"]", v, item)
		list = reflect.Append(list, item)
	}
	out.Set(list)
}

// positionOf is where a value begins: a mapping at its first key, since its own token is the colon after that.
func positionOf(n ast.Node) *token.Position {
	switch v := n.(type) {
	case nil:
		return nil
	case *ast.MappingNode:
		if !v.IsFlowStyle && len(v.Values) > 0 {
			return positionOf(v.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return positionOf(v.Key)
	}
	if t := n.GetToken(); t != nil {
		return t.Position
	}
	return nil
}

// scalar is the text of a plain value as it was written.
func scalar(n ast.Node) (string, bool) {
	switch v := n.(type) {
	case *ast.StringNode:
		return v.Value, true
	case *ast.LiteralNode:
		return v.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

func keyText(k ast.MapKeyNode) string {
	if s, ok := k.(*ast.StringNode); ok {
		return s.Value
	}
	return strings.TrimSpace(k.GetToken().Value)
}

func describe(n ast.Node) string {
	switch v := n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return "a mapping"
	case *ast.SequenceNode:
		return "a list"
	case *ast.StringNode:
		return fmt.Sprintf("the text %q", clip(v.Value))
	}
	return fmt.Sprintf("%q", clip(n.GetToken().Value))
}

// mostShown bounds what a message repeats of a value, in bytes: a file of another program is one long text.
const mostShown = 100

func clip(text string) string {
	if len(text) > mostShown {
		return strings.ToValidUTF8(text[:mostShown], "") + "..."
	}
	return text
}

func syntaxFault(file string, err error) error {
	f := &Fault{File: file, Err: err}
	var located yaml.Error
	if errors.As(err, &located) {
		text := located.GetMessage()
		if strings.Contains(text, "found character '\t'") {
			text = "a tab is no indentation in YAML; use spaces"
		}
		switch {
		case strings.HasSuffix(text, "value is not allowed in this context"): // which may be the line before
			text += `: compare the indentation here and below, and quote a text with ": " in it`
		case text == "unexpected key name", text == "non-map value is specified":
			text = "a key is followed by a colon and a space"
		}
		f.Err = errors.New(text)
		if t := located.GetToken(); t != nil && t.Position != nil {
			f.Line, f.Column = t.Position.Line, t.Position.Column
		}
	}
	return f
}
