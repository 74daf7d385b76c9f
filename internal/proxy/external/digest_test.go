package external

import "testing"

// TestDigest: a digest knows its body, however it came in pieces, and no other.
func TestDigest(t *testing.T) {
	const body = "a body of some bytes"
	for cut := range len(body) + 1 {
		var d Digest
		for _, piece := range []string{body[:cut], "", body[cut:]} {
			if n, err := d.Write([]byte(piece)); n != len(piece) || err != nil {
				t.Fatal(n, err)
			}
		}
		for other, want := range map[string]bool{body: true, body[1:]: false, "A" + body[1:]: false, "": false} {
			if d.Of([]byte(other)) != want {
				t.Errorf("cut after %d bytes: %q is %v", cut, other, !want)
			}
		}
	}
	var none Digest
	if !none.Of(nil) || none.Of([]byte("x")) {
		t.Error("the digest of no body is not that of no body alone")
	}
}
