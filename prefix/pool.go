package prefix

// pageBits sets the number of records per page. Pages never move, so a pool grows without copying.
const (
	pageBits = 8
	pageLen  = 1 << pageBits
)

// linked is a pointer to a record that can be linked into a free list.
type linked[T any] interface {
	*T
	link() *uint32
}

// pool allocates records by index. A freed record is not cleared: the next user sets it.
type pool[T any, P linked[T]] struct {
	pages []*[pageLen]T
	next  uint32 // lowest index never used
	free  uint32 // head of the free list; 0 means none, since index 0 is never freed
}

// at returns the record at an index.
func (p *pool[T, P]) at(i uint32) *T {
	return &p.pages[i>>pageBits][i&(pageLen-1)]
}

// take allocates a record, with its earlier content.
func (p *pool[T, P]) take() uint32 {
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

// give frees a record.
func (p *pool[T, P]) give(i uint32) {
	*P(p.at(i)).link() = p.free
	p.free = i
}
