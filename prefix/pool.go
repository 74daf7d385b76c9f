package prefix

// pageBits sets how many records a page has. Pages never move, so a pool grows without copying what it holds.
const (
	pageBits = 8
	pageLen  = 1 << pageBits
)

// linked is a pointer to a record that can stand in a pool's list of free ones.
type linked[T any] interface {
	*T
	link() *uint32
}

// pool hands out records by index and takes them back. A record that was given back is not cleared: who takes one sets it.
type pool[T any, P linked[T]] struct {
	pages []*[pageLen]T
	next  uint32 // index never handed out yet
	free  uint32 // head of the list of those given back; 0 is none, since index 0 is never given back
	given int    // handed out and not given back
}

// at is the record of an index.
func (p *pool[T, P]) at(i uint32) *T {
	return &p.pages[i>>pageBits][i&(pageLen-1)]
}

// take hands out a record with what it last held.
func (p *pool[T, P]) take() uint32 {
	p.given++
	if i := p.free; i != 0 {
		p.free = *P(p.at(i)).link()
		return i
	}
	i := p.next
	if int(i>>pageBits) == len(p.pages) {
		p.pages = append(p.pages, new([pageLen]T))
	}
	p.next++
	return i
}

// give takes a record back.
func (p *pool[T, P]) give(i uint32) {
	*P(p.at(i)).link() = p.free
	p.free = i
	p.given--
}

func (p *pool[T, P]) bytes(each int64) int64 {
	return int64(len(p.pages))*pageLen*each + int64(cap(p.pages))*8
}
