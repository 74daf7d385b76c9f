package admission

// Tenants is how many have members or held turns, or something on their account that they have not.
func (t *Table) Tenants() int { return len(t.tenants) }
