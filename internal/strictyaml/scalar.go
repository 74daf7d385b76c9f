package strictyaml

import (
	"cmp"
	"encoding"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

var (
	durationType    = reflect.TypeFor[time.Duration]()
	unmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// Field is a field of a struct that a file can set.
type Field struct {
	Name   string // its key
	Index  []int  // for reflect.Value.FieldByIndex
	Type   reflect.Type
	Go     string // its name in Go
	Secret bool   // tagged secret:"true"
}

// Fields lists the fields of a struct type that have a yaml tag, in order.
func Fields(t reflect.Type) []Field {
	var out []Field
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if name == "" || name == "-" {
			continue
		}
		out = append(out, Field{
			Name: name, Index: f.Index, Type: f.Type, Go: f.Name, Secret: f.Tag.Get("secret") == "true",
		})
	}
	return out
}

// IsLeaf says whether a value of the type is written as one text: no struct, list or map.
func IsLeaf(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		return IsLeaf(t.Elem())
	}
	return reflect.PointerTo(t).Implements(unmarshalerType) || t.Kind() == reflect.String || t.Kind() == reflect.Bool ||
		isNumber(t.Kind())
}

func isText(v reflect.Value) bool { return reflect.PointerTo(v.Type()).Implements(unmarshalerType) }

func isNumber(k reflect.Kind) bool {
	return k >= reflect.Int && k <= reflect.Float64 && k != reflect.Uintptr
}

// Wants says in words what a value of the type looks like.
func Wants(t reflect.Type) string {
	switch {
	case t == durationType:
		return `a duration such as "5s"`
	case t.Kind() == reflect.Pointer:
		return Wants(t.Elem())
	case reflect.PointerTo(t).Implements(unmarshalerType):
		if w, ok := reflect.New(t).Interface().(interface{ Wants() string }); ok {
			return w.Wants()
		}
		return "a text"
	}
	switch k := t.Kind(); {
	case k == reflect.String:
		return "a text"
	case k == reflect.Bool:
		return "true or false"
	case k == reflect.Float32 || k == reflect.Float64:
		return "a number"
	case isNumber(k):
		return "a whole number"
	case k == reflect.Slice:
		return "a list"
	default:
		return "a mapping of keys to values"
	}
}

// Set stores a text in a leaf, or in a list of texts (separated by commas). It is how environment and flags set values.
func Set(out reflect.Value, text string) error {
	wrong := func() error { return fmt.Errorf("want %s, got %q", Wants(out.Type()), text) }
	if out.Kind() == reflect.Pointer {
		fresh := reflect.New(out.Type().Elem())
		if err := Set(fresh.Elem(), text); err != nil {
			return err
		}
		out.Set(fresh)
		return nil
	}
	if isText(out) {
		return out.Addr().Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
	}
	if out.Type() == durationType {
		d, err := time.ParseDuration(text)
		if err != nil {
			return wrong()
		}
		out.SetInt(int64(d))
		return nil
	}
	switch k := out.Kind(); {
	case k == reflect.String:
		out.SetString(text)
	case k == reflect.Bool:
		if text != "true" && text != "false" {
			return wrong()
		}
		out.SetBool(text == "true")
	case k == reflect.Float32 || k == reflect.Float64:
		f, err := strconv.ParseFloat(text, out.Type().Bits())
		if err != nil {
			return wrong()
		}
		out.SetFloat(f)
	case out.CanInt():
		i, err := strconv.ParseInt(text, 10, out.Type().Bits())
		if err != nil {
			return wrong()
		}
		out.SetInt(i)
	case out.CanUint():
		u, err := strconv.ParseUint(text, 10, out.Type().Bits())
		if err != nil {
			return wrong()
		}
		out.SetUint(u)
	case k == reflect.Slice && out.Type().Elem().Kind() == reflect.String:
		list := reflect.MakeSlice(out.Type(), 0, 4)
		for _, item := range strings.Split(text, ",") {
			if item = strings.TrimSpace(item); item == "" && strings.TrimSpace(text) != "" {
				return fmt.Errorf("an item of the list %q is empty", text)
			} else if item != "" {
				list = reflect.Append(list, reflect.ValueOf(item).Convert(out.Type().Elem()))
			}
		}
		out.Set(list)
	default:
		return wrong()
	}
	return nil
}

// suggestion says what an unknown key in the mapping at path was probably meant for.
func (d *decoder) suggestion(path, key string, fields []Field) string {
	var names []string
	for _, f := range fields {
		names = append(names, f.Name)
	}
	if do := d.options.Foreign[key]; do != "" && path == "" {
		return "; " + do
	}
	if own := d.options.Others[strings.ToLower(key)]; slices.Contains(names, own) {
		return fmt.Sprintf("; here it is %q", own)
	}
	if hint := DidYouMean(key, names); hint != "" {
		return hint
	}
	if under := holder(d.root, key); under != "" && under != path {
		return fmt.Sprintf("; it belongs under %q", under)
	}
	return Suggest(key, names)
}

// holder is the path of the one mapping next to the root that has a key; "" where there is none, or several.
func holder(root reflect.Type, key string) string {
	type place struct {
		path string
		t    reflect.Type
	}
	for level := []place{{"", root}}; len(level) > 0; {
		var found []string
		var next []place
		for _, p := range level {
			for _, f := range Fields(p.t) {
				if f.Name == key {
					found = append(found, p.path)
				}
				t := f.Type
				for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
					t = t.Elem()
				}
				// a type that holds itself ends here too
				if at := Join(p.path, f.Name); t.Kind() == reflect.Struct && strings.Count(at, ".") < deepest {
					next = append(next, place{at, t})
				}
			}
		}
		if len(found) > 0 {
			if len(found) > 1 {
				return ""
			}
			return found[0]
		}
		level = next
	}
	return ""
}

// deepest is how many levels below the root holder looks.
const deepest = 3

// Suggest is DidYouMean, or the list of names where nothing is near, if they are few.
func Suggest(got string, valid []string) string {
	hint := DidYouMean(got, valid)
	if hint == "" && len(valid) > 0 && len(valid) <= mostListed {
		return "; known here: " + strings.Join(valid, ", ")
	}
	return hint
}

// DidYouMean is "; did you mean "x"?" for the valid name that a wrong one was probably meant for: the nearest, if it
// takes no more edits than a third of the letters typed, or one where these are few. "" when none is near.
func DidYouMean(got string, valid []string) string {
	if len(valid) == 0 {
		return ""
	}
	far := func(name string) int {
		if len(got) >= 3 && strings.HasPrefix(name, got) {
			return 1 // the beginning of a name means that name
		}
		if len(name) >= 4 && 2*len(name) >= len(got) && strings.HasPrefix(got, name) {
			return 1 // and so does a name with something after it
		}
		if len(got) >= 4 && strings.HasSuffix(name, "_"+got) {
			return 1 // or its last word
		}
		return distance(got, name)
	}
	nearest := slices.MinFunc(valid, func(a, b string) int { return cmp.Compare(far(a), far(b)) })
	if edits := far(nearest); edits >= len(got) || edits > max(1, len(got)/3) {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", nearest)
}

// mostListed bounds the names in a message.
const mostListed = 12

// distance is the number of letters to insert, delete, replace or swap with a neighbour to turn a into b (optimal
// string alignment). Long texts are cut, since only small distances matter.
func distance(a, b string) int {
	a, b = strings.ToLower(a[:min(len(a), 64)]), strings.ToLower(b[:min(len(b), 64)])
	before, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		next := make([]int, len(b)+1)
		next[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next[j] = min(row[j]+1, next[j-1]+1, row[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(b)]
}

func sortStable(faults []error) {
	slices.SortStableFunc(faults, func(a, b error) int {
		la, ca := placeOf(a)
		lb, cb := placeOf(b)
		return cmp.Or(cmp.Compare(la, lb), cmp.Compare(ca, cb))
	})
}
