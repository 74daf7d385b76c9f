package migrate

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/goccy/go-yaml/ast"

	"github.com/warmpath/warmpath/internal/strictyaml"
)

// node is one value of a YAML text: a scalar, a list or a mapping.
type node struct {
	key    string // in its mapping
	line   int
	text   string // of a scalar
	scalar bool
	list   bool
	items  []*node // of a list or a mapping
	used   bool    // somebody has read it, or it is a container: then its items say for themselves
}

// The bounds of a tree.
const (
	mostNodes = 10_000
	mostDepth = 64
)

var errDeep = errors.New("it is nested too deeply, or too large")

// parseTree reads one YAML document. The error is "file:line: what".
func parseTree(file string, data []byte) (*node, error) {
	parsed, err := strictyaml.Parse(file, data)
	if err != nil {
		line := 1
		if f := (*strictyaml.Fault)(nil); errors.As(err, &f) {
			line, err = max(1, f.Line), f.Err
		}
		return nil, fmt.Errorf("%s:%d: %w", file, line, err)
	}
	b := treeBuilder{anchors: map[string]ast.Node{}}
	root := &node{line: 1}
	for i, doc := range parsed.Docs {
		if doc.Body == nil {
			continue
		}
		if i > 0 && root.items != nil {
			hint := ""
			if bytes.Contains(data, []byte("apiVersion:")) {
				hint = "; of manifests give the command line of the router's container, after --"
			}
			return nil, fmt.Errorf("%s:%d: a second document; one file holds one%s",
				file, doc.Body.GetToken().Position.Line, hint)
		}
		if root, err = b.build("", doc.Body, 0); err != nil {
			return nil, fmt.Errorf("%s:%w", file, err)
		}
		if root.scalar || root.list {
			return nil, fmt.Errorf("%s:%d: a mapping of settings is wanted", file, root.line)
		}
	}
	return root, nil
}

type treeBuilder struct {
	anchors map[string]ast.Node
	nodes   int
}

func (b *treeBuilder) build(key string, n ast.Node, depth int) (*node, error) {
	out := &node{key: key, line: n.GetToken().Position.Line}
	if b.nodes++; b.nodes > mostNodes || depth > mostDepth {
		return nil, fmt.Errorf("%d: %w", out.line, errDeep)
	}
	add := func(key string, n ast.Node) error {
		item, err := b.build(key, n, depth+1)
		out.items = append(out.items, item)
		return err
	}
	switch n := n.(type) {
	case *ast.AnchorNode:
		b.anchors[n.Name.GetToken().Value] = n.Value
		return b.build(key, n.Value, depth+1)
	case *ast.AliasNode:
		target, ok := b.anchors[n.Value.GetToken().Value]
		if !ok {
			return nil, fmt.Errorf("%d: the alias *%s stands for nothing", out.line, n.Value.GetToken().Value)
		}
		return b.build(key, target, depth+1)
	case *ast.TagNode:
		return b.build(key, n.Value, depth+1)
	case *ast.MappingNode:
		if len(n.Values) == 1 && n.GetToken().Value == ":" {
			if text, ok := plain(n.Values[0]); ok {
				out.scalar, out.text = true, text
				break
			}
		}
		for _, v := range n.Values {
			if err := add(keyText(v.Key), v.Value); err != nil {
				return nil, err
			}
			out.items[len(out.items)-1].line = v.Key.GetToken().Position.Line
		}
	case *ast.MappingValueNode:
		if text, ok := plain(n); ok {
			out.scalar, out.text = true, text
			break
		}
		if err := add(keyText(n.Key), n.Value); err != nil {
			return nil, err
		}
		out.items[0].line = n.Key.GetToken().Position.Line
	case *ast.SequenceNode:
		out.list = true
		for _, v := range n.Values {
			if err := add("", v); err != nil {
				return nil, err
			}
		}
	case *ast.NullNode:
		out.scalar = true
	case *ast.LiteralNode:
		out.scalar, out.text = true, n.Value.Value
	default:
		out.scalar, out.text = true, n.GetToken().Value
	}
	return out, nil
}

// plain puts together what the parser took apart: within flow mappings it reads host:8000 as one, though YAML wants a
// space after the colon of one.
func plain(n *ast.MappingValueNode) (string, bool) {
	colon, value := n.Start.Position, n.Value.GetToken().Position
	if _, ok := n.Value.(ast.ScalarNode); !ok || colon.Line != value.Line || colon.Column+1 != value.Column {
		return "", false
	}
	return keyText(n.Key) + ":" + n.Value.GetToken().Value, true
}

func keyText(k ast.MapKeyNode) string { return k.GetToken().Value }

// get finds a member of a mapping, the last one if it is there twice; nil when there is none. It does not count as
// read.
func (n *node) get(path ...string) *node {
	for _, key := range path {
		if n == nil {
			return nil
		}
		var found *node
		for _, item := range n.items {
			if item.key == key && !n.list {
				found = item
			}
		}
		n = found
	}
	return n
}

// take is get for a scalar that is read now; "" when it is not there or is none.
func (n *node) take(path ...string) string {
	if at := n.get(path...); at != nil && at.scalar {
		at.used = true
		return at.text
	}
	return ""
}

// texts are the scalars of a list that is read now, or a scalar as a list of one.
func (n *node) texts(path ...string) []string {
	at := n.get(path...)
	if at == nil {
		return nil
	}
	at.used = true
	if at.scalar {
		return []string{at.text}
	}
	var out []string
	for _, item := range at.items {
		if item.scalar {
			item.used = true
			out = append(out, item.text)
		}
	}
	return out
}

// usedWhole marks a value and all in it as read.
func (n *node) usedWhole() {
	if n == nil {
		return
	}
	n.used = true
	for _, item := range n.items {
		item.usedWhole()
	}
}

// touched reports whether anything of a value has been read.
func (n *node) touched() bool {
	return n.used || slices.ContainsFunc(n.items, (*node).touched)
}

// show is a value behind its key, cut where it is long.
func show(text string) string {
	const longest = 60
	if text == "" {
		return ""
	}
	if len(text) > longest {
		text = text[:longest] + "..."
	}
	return " (" + strconv.Quote(text) + ")"
}
