package admission

// Tenants is how many have members or held turns, or something on their account that they have not.
func (t *Table) Tenants() (n int) {
	for _, x := range t.tenants {
		if x.refs > 0 {
			n++
		}
	}
	return n
}

// Lapsed is how many conversations are no members any more and remembered.
func (t *Table) Lapsed() int { return len(t.lapsed.byKey) + len(t.lapsed.at) }

// Reserved is what is reserved of an endpoint.
func (t *Table) Reserved(slot int) int64 { return t.endpoints.Get(slot).reserved }
