// Package identity finds out who sent a request: the tenant and the caller, the conversation by its content, the
// endpoint in a client's token, and request ids.
//
// It owns the API keys of tenants, the secrets of tokens and salts, and the memory for a prompt's content.
//
// It promises that tenants' keys reach no endpoint unless the configuration says so, that only holders of the secret
// can make and read a token, and that tenants' caches are kept apart where engines can do so.
//
// It never chooses an endpoint, and keeps nothing from one request to the next but when each API key was last used.
package identity
