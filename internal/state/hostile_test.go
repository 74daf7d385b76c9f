package state

import (
	"math/rand"
	"reflect"
	"testing"
	"time"

	"github.com/warmpath/warmpath/route"
)

// TestRestoreOfAnyFigures: whatever figures a file of the right form holds, the router starts with it, decides, and
// saves again.
func TestRestoreOfAnyFigures(t *testing.T) {
	rng := rand.New(rand.NewSource(1))
	for n := range 60 {
		w := newWorld(t)
		w.run(2)
		var pieces []route.Piece
		w.pieces(func(p *route.Piece) bool {
			pieces = append(pieces, *p)
			return true
		})
		for i := range pieces {
			spoil(rng, reflect.ValueOf(&pieces[i]).Elem())
		}
		file, err := Encode(w.now, func(f func(*route.Piece) bool) {
			for i := range pieces {
				if !f(&pieces[i]) {
					return
				}
			}
		}, 256e6)
		if err != nil {
			t.Fatal(err)
		}
		read, _, err := Decode(file)
		if err != nil {
			continue // a figure is not a number
		}
		w.router = newRouter(t)
		for i := range read {
			w.router.Restore(w.now, &read[i], time.Duration(n)*time.Minute)
		}
		w.declare()
		w.run(2)
		w.now = w.now.Add(time.Hour)
		w.run(1)
		if _, err := Encode(w.now, w.pieces, 256e6); err != nil {
			t.Fatal(err)
		}
	}
}

// spoil gives one number in ten a value that no router would have.
func spoil(rng *rand.Rand, v reflect.Value) {
	wild := rng.Intn(10) == 0
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			spoil(rng, v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				spoil(rng, v.Field(i))
			}
		}
	case reflect.Slice, reflect.Array:
		for i := range v.Len() {
			spoil(rng, v.Index(i))
		}
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		if wild {
			v.SetInt([]int64{-1, 0, 1<<63 - 1, -1 << 63, 1 << 40}[rng.Intn(5)])
		}
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		if wild {
			v.SetUint([]uint64{0, 1<<64 - 1, 1 << 63, 1 << 31}[rng.Intn(4)])
		}
	case reflect.Float64:
		if wild {
			v.SetFloat([]float64{-1, 0, 1e308, -1e308, 1e-308}[rng.Intn(5)])
		}
	}
}
