package drive

import (
	"reflect"
	"testing"

	"github.com/warmpath/warmpath/sim/rig"
)

// TestLinksAreShared: two transfers from one engine share its link; one between two others does not.
func TestLinksAreShared(t *testing.T) {
	l := newLinks(rig.Transfer{BytesPerToken: 1, Bandwidth: 1e9}, 5)
	l.begin(0, 1, 0, 1, 1000) // one byte per ns alone
	l.begin(0, 2, 3, 4, 1000)
	l.begin(500, 3, 0, 2, 1000)
	var ends []int64
	var order []int32
	for {
		at := l.next()
		if at < 0 {
			break
		}
		for _, h := range l.done(at, nil) {
			order, ends = append(order, h), append(ends, at)
		}
	}
	// The first has 500 left at 500 and half the link from then on; the third has 500 left when that ends, at 1,500.
	if !reflect.DeepEqual(order, []int32{2, 1, 3}) || ends[0] > 1003 || ends[1] < 1500 || ends[1] > 1504 ||
		ends[2] < 2000 || ends[2] > 2008 {
		t.Errorf("%v end at %v", order, ends)
	}
}
