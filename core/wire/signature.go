package wire

// SignatureBytes is the length of an ML-DSA-65 signature (02#signatures).
const SignatureBytes = 3309

// PublicKeyBytes is the length of an ML-DSA-65 public key (02#signatures).
const PublicKeyBytes = 1952

// PrekeyBytes is the length of an X-Wing public key (03#x-wing).
const PrekeyBytes = 1216

// KEMCiphertextBytes is the length of an X-Wing ciphertext (03#x-wing).
const KEMCiphertextBytes = 1120

// Signature is a delegated signature: the closed object {scheme, seq, value}
// whose scheme is ml-dsa-65, whose seq names the signing delegation and whose
// value has 3309 bytes (02#delegated-signatures).
type Signature struct {
	Seq   int64
	Value []byte
}

// Signature reads the named member as a delegated signature object.
func (r *Reader) Signature(name string) Signature {
	o := r.Object(name)
	if scheme := o.String("scheme"); scheme != SchemeMLDSA65 {
		o.FailMember("scheme", "is %.40q, not %q", scheme, SchemeMLDSA65)
	}
	sig := Signature{Seq: o.Int("seq"), Value: o.Base64("value", SignatureBytes, SignatureBytes)}
	_ = o.Close() // the error is r's as well
	return sig
}

// Object returns the JSON form of s.
func (s Signature) Object() Value {
	return NewObject(
		M("scheme", NewString(SchemeMLDSA65)),
		M("seq", NewInt(s.Seq)),
		M("value", NewString(EncodeBase64(s.Value))),
	)
}
