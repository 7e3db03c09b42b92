package relaysvc

import (
	"net/http"

	"github.com/ace-toolkit/ace/core/kel"
	"github.com/ace-toolkit/ace/core/relayapi"
	"github.com/ace-toolkit/ace/relaysvc/relaydb"
)

// maxBlockBody bounds the body of a block request, which has some 150 bytes.
const maxBlockBody = 4096

// serveBlock is POST /v1/blocks (07#blocks).
func (s *Server) serveBlock(w http.ResponseWriter, r *request) error {
	h, err := relayapi.ParseHeaders(r.Header)
	if err != nil {
		return err
	}
	body, err := s.readBody(w, r, maxBlockBody)
	if err != nil {
		return err
	}
	value, err := relayapi.ParseBody(body)
	if err != nil {
		return err
	}
	b, err := relayapi.ParseBlock(value, h.ID)
	if err != nil {
		return err
	}
	payload := relayapi.BlockPayload(b.Peer, b.Blocked, b.Revision)
	if err := s.authenticated(r, h, kel.ActionBlock, payload, func(c caller) error {
		return s.db.Block(r.Context(), c.Caller, relaydb.Block(b), s.limits().BlockPeers)
	}); err != nil {
		return err
	}
	return s.accept(w, relayapi.OK())
}
