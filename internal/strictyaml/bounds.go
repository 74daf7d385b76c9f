package strictyaml

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Bounds of a text, beside maxNodes. Values of etcd come from other hosts, and the parser takes time and memory for the
// square of each of these: 40 kB of brackets took 640 MB, 20 kB of empty lines 1 GB, and 200 kB of keys 1.6 GB.
const (
	maxDepth = 100
	// of one mapping in block style; in flow style ({"a": 1, "b": 2}) they cost no more than others
	maxKeys   = 10_000
	maxPieces = 4 * maxNodes // what separates tokens: of a value usually three; the lexer takes some 300 bytes a token
	maxEmpty  = 1_000        // empty lines in a row
	maxMarks  = 100          // tags and anchors in a row, directives
)

var (
	errLarge = errors.New("the file has too many values")
	errEmpty = fmt.Errorf("there are more than %d empty lines in a row", maxEmpty)
	errDeep  = fmt.Errorf("values are nested more than %d deep", maxDepth)
	errKeys  = fmt.Errorf("a mapping has more than %d keys; write one of so many in braces, as in JSON", maxKeys)
	errUTF16 = errors.New("the file is UTF-16, as PowerShell's > writes it; save it as UTF-8")
	errMarks = fmt.Errorf("there are more than %d directives, or tags and anchors in a row", maxMarks)
)

// Parse is the syntax tree of a text whose size and shape are within the bounds. The error is a *Fault.
func Parse(file string, data []byte) (*ast.File, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // the byte order mark of editors on Windows
	if bytes.HasPrefix(data, []byte("\xff\xfe")) || bytes.HasPrefix(data, []byte("\xfe\xff")) {
		return nil, &Fault{File: file, Line: 1, Column: 1, Err: errUTF16}
	}
	if line, err := pieces(data); err != nil {
		return nil, &Fault{File: file, Line: line, Err: err}
	}
	tokens := lexer.Tokenize(string(data))
	if at, err := shape(tokens); err != nil {
		return nil, &Fault{File: file, Line: at.Position.Line, Column: at.Position.Column, Err: err}
	}
	tree, err := parser.Parse(tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		return nil, syntaxFault(file, err)
	}
	return tree, nil
}

// pieces checks what costs the lexer much: the number of tokens, by the bytes that separate them, and empty lines.
func pieces(data []byte) (line int, err error) {
	n, empty, last := 0, 0, byte('\n')
	line = 1
	for _, b := range data {
		switch b {
		case '\n', '\r':
			if b == '\n' {
				line++
				n++
			}
			if empty++; empty > 2*maxEmpty {
				return line, errEmpty
			}
		case ',', '[', ']', '{', '}':
			n++
			empty = 0
		case ' ', '\t':
			if last != ' ' && last != '\t' && last != '\n' {
				n++
			}
			empty = 0
		default:
			empty = 0
		}
		if n > maxPieces {
			return line, errLarge
		}
		last = b
	}
	return line, nil
}

// level is a list or a mapping in block style: the column of its entries.
type level struct{ column, keys int }

// shape checks what costs the parser much. It returns the token at which a bound is passed.
func shape(tokens token.Tokens) (at *token.Token, err error) {
	var blocks []level
	flow, marks, directives := 0, 0, 0
	for i, t := range tokens {
		entry := false
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(0, flow-1)
		case token.DirectiveType:
			directives++
		case token.TagType, token.AnchorType:
			marks++
			entry = true
		case token.SequenceEntryType, token.MappingKeyType, token.MappingValueType:
			entry = true
			if flow > 0 {
				marks++
				break
			}
			marks = 0
			column, key := t.Position.Column, t.Type == token.MappingValueType
			if key && i > 0 {
				column = tokens[i-1].Position.Column
			}
			n := len(blocks)
			for n > 0 && blocks[n-1].column > column {
				n--
			}
			if blocks = blocks[:n]; n == 0 || blocks[n-1].column < column {
				blocks = append(blocks, level{column: column})
			}
			if top := &blocks[len(blocks)-1]; key {
				if top.keys++; top.keys > maxKeys {
					return t, errKeys
				}
			}
		}
		if !entry && (i == 0 || tokens[i-1].Type != token.AnchorType) { // whose name it would be
			marks = 0
		}
		switch {
		case marks > maxMarks, directives > maxMarks:
			return t, errMarks
		case flow+len(blocks) > maxDepth:
			return t, errDeep
		}
	}
	return nil, nil
}
