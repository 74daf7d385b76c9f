package shadow

import (
	"reflect"
	"testing"

	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/pick"
)

// fill sets every field that refers to memory, and returns what they refer to.
func fill(v reflect.Value, path string, refs map[uintptr]string) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		refs[v.Pointer()] = path
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		refs[v.Pointer()] = path
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		refs[v.Pointer()] = path
	case reflect.Func, reflect.Chan, reflect.Interface:
		panic(path + " cannot be copied")
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				fill(v.Field(i), path+"."+f.Name, refs)
			}
		}
	}
}

// shared names what a value has in common with those references.
func shared(v reflect.Value, path string, refs map[uintptr]string) (names []string) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		if of, ok := refs[v.Pointer()]; ok {
			names = append(names, path+" is "+of)
		}
		if v.Kind() == reflect.Pointer && !v.IsNil() {
			names = append(names, shared(v.Elem(), path, refs)...)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			names = append(names, shared(v.Field(i), path+"."+v.Type().Field(i).Name, refs)...)
		}
	}
	return names
}

// TestSightingSharesNothing: a sighting is read in another goroutine, so whatever the view and the request refer to
// stays with the router.
func TestSightingSharesNothing(t *testing.T) {
	var view pick.View
	var request fleet.Request
	refs := map[uintptr]string{}
	fill(reflect.ValueOf(&view).Elem(), "view", refs)
	fill(reflect.ValueOf(&request).Elem(), "request", refs)
	fill(reflect.ValueOf(request.Content).Elem(), "content", refs)
	request.Content.List = nil // of several prompts nothing is kept
	if len(refs) < 10 {
		t.Fatalf("only %d references to look for", len(refs))
	}
	view.Candidates[0].Name = "e"
	var s Sighting
	if !s.Take(&view, &request, Placed{Endpoint: "e"}) {
		t.Fatal("not taken")
	}
	if s.request.Content == nil || len(s.request.Content.Blocks) != 1 {
		t.Error("the content is not taken")
	}
	for _, name := range shared(reflect.ValueOf(&s).Elem(), "sighting", refs) {
		t.Error(name)
	}
}
