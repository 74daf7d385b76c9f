package rawjson

import "testing"

// FuzzCursor reads any bytes by any calls. Position never leaves the data, and nothing behind it is read: data ends
// where its memory does.
func FuzzCursor(f *testing.F) {
	for _, data := range []string{
		`{"a":"b\`, `{"a\`, `["\`, `"\"`, `{"a":[1,{"b":"\\"}],"c":null}`, `[1,2,3`, `{"a":{"b":"c\`, `-`, `:`, ``,
	} {
		f.Add([]byte(data), []byte{0, 1, 2, 3, 4, 5, 6, 7})
		f.Add([]byte(data), []byte{8, 1, 3, 1, 3})
	}
	f.Fuzz(func(t *testing.T, data, calls []byte) {
		c := Cursor{Data: append(make([]byte, 0, len(data)), data...)[:len(data):len(data)]}
		for _, call := range calls {
			switch call % 9 {
			case 0:
				c.Space()
			case 1:
				c.Key()
			case 2:
				c.Str()
			case 3:
				c.Skip()
			case 4:
				c.Word()
			case 5:
				c.Count()
			case 6:
				c.numbers()
			case 7:
				c.Take(',')
			case 8:
				c.Take('{')
			}
			if c.Pos < 0 || c.Pos > len(data) {
				t.Fatalf("after call %d of %q the position in %q is %d of %d", call%9, calls, data, c.Pos, len(data))
			}
		}
	})
}
