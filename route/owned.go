package route

// owns reports an id among those that must be known for the request's tenant which is not: it is another tenant's, was
// forgotten, or never existed, and all three look alike.
func (r *readers) owns(d *decision) error {
	for _, id := range d.req.Owned {
		if _, ok := r.conversations.Holder(d.now, d.req.Tenant, id); !ok {
			return &UnknownIDError{id}
		}
	}
	return nil
}
