package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Decode reads JSON like Python's json.loads, into the values of this package: objects keep their order, and for a
// duplicate key the last value takes the place of the first.
func Decode(raw []byte) (v any, err error) {
	defer recovered(&err)
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if v, err = decodeValue(d); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there is more after the value")
	}
	return v, nil
}

func decodeValue(d *json.Decoder) (any, error) {
	tok, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch tok := tok.(type) {
	case json.Delim:
		if tok == '[' {
			return decodeList(d)
		}
		return decodeDict(d)
	case json.Number:
		return decodeNumber(tok.String())
	}
	return tok, nil // string, bool, nil
}

func decodeList(d *json.Decoder) (any, error) {
	list := []any{}
	for d.More() {
		v, err := decodeValue(d)
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	_, err := d.Token()
	return &List{list}, err
}

func decodeDict(d *json.Decoder) (any, error) {
	dict := NewDict()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		v, err := decodeValue(d)
		if err != nil {
			return nil, err
		}
		dict.Set(key, v)
	}
	_, err := d.Token()
	return dict, err
}

// mostDigits is the most digits of an integer that Python reads (sys.int_info.default_max_str_digits).
const mostDigits = 4300

func decodeNumber(s string) (any, error) {
	if strings.ContainsAny(s, ".eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) { // too large is infinite
			return nil, err
		}
		return f, nil
	}
	if n, err := strconv.Atoi(s); err == nil {
		return n, nil
	}
	n, ok := new(big.Int).SetString(s, 10)
	if !ok || len(s) > mostDigits {
		return nil, errors.New("a number is too long")
	}
	return n, nil
}

// toJSON is transformers' tojson: json.dumps, by default without escaping non-ASCII characters.
func toJSON(f *frame, v any, a *args) any {
	d := &dumper{f: f, item: ", ", pair: ": "}
	d.ascii = truth(a.or("ensure_ascii", false))
	indent, separators := a.or("indent", nil), a.or("separators", nil)
	d.sort = truth(a.or("sort_keys", false))
	switch by := indent.(type) {
	case nil:
	case string:
		d.indented, d.indent, d.item = true, by, ","
	default:
		n, ok := whole(by)
		if !ok || n > 64 {
			fail("tojson: indent must be a whole number up to 64, or a text")
		}
		d.indented, d.indent, d.item = true, strings.Repeat(" ", max(n, 0)), ","
	}
	if separators != nil {
		two := takenApart(f, separators, 2)
		d.item, d.pair = f.r.str(two[0]), f.r.str(two[1])
	}
	d.value(v)
	return string(d.out)
}

// dumper writes values as Python's json.dumps does.
type dumper struct {
	f          *frame
	out        []byte
	item, pair string // between items, and between a key and its value
	indent     string
	indented   bool
	sort       bool
	ascii      bool
	depth      int
}

func (d *dumper) value(v any) {
	d.f.r.spend(8)
	switch v := v.(type) {
	case nil:
		d.out = append(d.out, "null"...)
	case bool:
		d.out = strconv.AppendBool(d.out, v)
	case string:
		d.text(v)
	case int:
		d.out = strconv.AppendInt(d.out, int64(v), 10)
	case *big.Int:
		d.out = v.Append(d.out, 10)
	case float64:
		d.out = append(d.out, jsonFloat(v)...)
	case *List:
		d.group('[', ']', len(v.Items), func(i int) { d.value(v.Items[i]) })
	case Tuple:
		d.group('[', ']', len(v), func(i int) { d.value(v[i]) })
	case *Dict:
		order := make([]int, v.Len())
		for i := range order {
			order[i] = i
		}
		if d.sort {
			slices.SortStableFunc(order, func(a, b int) int {
				return strings.Compare(jsonKey(v.keys[a]), jsonKey(v.keys[b]))
			})
		}
		d.group('{', '}', v.Len(), func(i int) {
			d.text(jsonKey(v.keys[order[i]]))
			d.out = append(d.out, d.pair...)
			d.value(v.values[order[i]])
		})
	default:
		fail("a value of type %s is not JSON", typeName(v))
	}
}

func jsonFloat(f float64) string {
	switch s := pyFloat(f); s {
	case "nan":
		return "NaN"
	case "inf":
		return "Infinity"
	case "-inf":
		return "-Infinity"
	default:
		return s
	}
}

func jsonKey(key any) string {
	switch k := key.(type) {
	case string:
		return k
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(k)
	case float64:
		return jsonFloat(k)
	case int, *big.Int:
		return (*rendering)(nil).str(k)
	}
	fail("a value of type %s cannot be a key in JSON", typeName(key))
	return ""
}

// group writes n items with brackets and separators.
func (d *dumper) group(begin, end byte, n int, item func(i int)) {
	d.out = append(d.out, begin)
	if d.depth++; d.depth > 10_000 {
		fail("tojson: nested too deep")
	}
	for i := range n {
		if i > 0 {
			d.out = append(d.out, d.item...)
		}
		d.line()
		item(i)
	}
	d.depth--
	if n > 0 {
		d.line()
	}
	d.out = append(d.out, end)
}

func (d *dumper) line() {
	if !d.indented {
		return
	}
	d.f.r.spendTimes(len(d.indent), d.depth)
	d.out = append(d.out, '\n')
	for range d.depth {
		d.out = append(d.out, d.indent...)
	}
}

func (d *dumper) text(s string) {
	d.f.r.spend(len(s))
	d.out = append(d.out, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			d.out = append(d.out, '\\', byte(r))
		case r == '\n':
			d.out = append(d.out, `\n`...)
		case r == '\r':
			d.out = append(d.out, `\r`...)
		case r == '\t':
			d.out = append(d.out, `\t`...)
		case r == '\b':
			d.out = append(d.out, `\b`...)
		case r == '\f':
			d.out = append(d.out, `\f`...)
		case r < 0x20 || d.ascii && r > 0x7E && r < 0x10000 && r != 0x7F:
			d.out = fmt.Appendf(d.out, `\u%04x`, r)
		case d.ascii && r >= 0x10000:
			r -= 0x10000
			d.out = fmt.Appendf(d.out, `\u%04x\u%04x`, 0xD800+r>>10, 0xDC00+r&0x3FF)
		default:
			d.out = utf8.AppendRune(d.out, r)
		}
	}
	d.out = append(d.out, '"')
}
