package h1

// lateReader reads once, into memory that it takes when bytes have arrived: a connection that waits holds none.
type lateReader interface {
	readLent(m memory) (int, error)
}

// memory is lent for one read.
type memory interface {
	take() []byte
	give() // takes it back, unused
}
