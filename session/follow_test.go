package session

// Follow is Find, then Note.
func (t *Trails) Follow(p *Trail, fresh string) (id string, known bool) {
	f := t.Find(p, fresh)
	t.Note(p, &f)
	return f.ID, f.Known
}
