package route

import (
	"reflect"
	"testing"

	"github.com/warmpath/warmpath/pick"
	"github.com/warmpath/warmpath/route/internal/pool"
	"github.com/warmpath/warmpath/route/internal/registry"
	"github.com/warmpath/warmpath/route/internal/split"
)

// TestReadersAreReaders: the steps before the last get Readers and plain values, and what these hand out can be read
// only: no field of it is exported, and no method is declared on a pointer.
func TestReadersAreReaders(t *testing.T) {
	of := reflect.TypeFor[readers]()
	handles := []reflect.Type{
		reflect.TypeFor[registry.Endpoint](), reflect.TypeFor[pool.Pool](), reflect.TypeFor[pool.Member](),
	}
	for i := range of.NumField() {
		f := of.Field(i)
		switch kind := f.Type.Kind(); {
		case f.Type.Name() == "Reader":
			handles = append(handles, f.Type)
		case f.Type == reflect.TypeFor[split.Rule](), f.Type == reflect.TypeFor[pick.Needs](), kind == reflect.Bool,
			kind == reflect.Int, kind == reflect.Int64, kind == reflect.Uint64:
		default:
			t.Errorf("readers.%s is a %v: through it a step could write", f.Name, f.Type)
		}
	}
	if len(handles) < 10 {
		t.Fatalf("only %d types were looked at", len(handles))
	}
	for _, h := range handles {
		for i := range h.NumField() {
			if h.Field(i).IsExported() {
				t.Errorf("%v: the field %s is exported", h, h.Field(i).Name)
			}
		}
		if n := reflect.PointerTo(h).NumMethod(); n == 0 || n != h.NumMethod() {
			t.Errorf("%v has methods on a pointer", h)
		}
	}
}
