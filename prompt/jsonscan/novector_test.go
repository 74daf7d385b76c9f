package jsonscan

import "testing"

// TestWithoutVectors repeats the tests without vector code, as on a processor without it.
func TestWithoutVectors(t *testing.T) {
	w, d := wide, deep
	defer func() { wide, deep = w, d }()
	for _, off := range []struct {
		name       string
		wide, deep bool
	}{{"neither", false, false}, {"AVX2 alone", w, false}} {
		t.Run(off.name, func(t *testing.T) {
			wide, deep = off.wide, off.deep
			t.Run("strings", TestStringStopsAtEveryByte)
			t.Run("cursor", TestCursorAgreesWithEncodingJSON)
			t.Run("decoded", TestDecodeAndEncodeStrings)
			t.Run("lengths", TestTextLenIsDecodedLength)
			t.Run("appended", TestQuotedOnto)
		})
	}
}
