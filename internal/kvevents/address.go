package kvevents

import (
	"strconv"
	"strings"
)

// AddPort is the address of a data-parallel rank: engines add its number to the port.
func AddPort(addr string, rank int) string {
	at := strings.LastIndexByte(addr, ':')
	if at < 0 || rank == 0 {
		return addr
	}
	port, err := strconv.Atoi(addr[at+1:])
	if err != nil {
		return addr
	}
	return addr[:at+1] + strconv.Itoa(port+rank)
}
