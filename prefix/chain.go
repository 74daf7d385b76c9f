package prefix

// Chain appends the chain that ends with block last to to, first block first; ok is false when no slot holds the block.
func (x *Index) Chain(last uint64, to []uint64) (chain []uint64, ok bool) {
	x.single()
	a := x.find(last)
	if last == 0 || a == 0 {
		return to, false
	}
	n, i := x.locate(a)
	return x.path(n, i+1, to), true
}

// Depth is the length of the chain that ends with a block; 0 when no slot holds it.
func (x *Index) Depth(hash uint64) int {
	x.single()
	a := x.find(hash)
	if hash == 0 || a == 0 {
		return 0
	}
	n, i := x.locate(a)
	return int(x.nodes.at(n).at+i) + 1
}
