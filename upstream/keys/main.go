// Keys makes the keys and certificates that a kube-apiserver on loopback needs, so that upstream/serve depends on no
// openssl. What a directory already has is kept: a server restarted over its old data still knows its clients.
//
//	ca.crt, ca.key                  signs everything below, and certificate signing requests
//	apiserver.crt, apiserver.key    serving certificate
//	admin.crt, admin.key            client certificate of user admin in group system:masters
//	service-account.key, .pub       signs and checks service account tokens
//
// With --address the server is also found there; with --node NAME, as upstream/cluster needs it, there are also
//
//	node.crt, node.key              client certificate of that node
//	kubelet.crt, kubelet.key        what its kubelet serves with, at the address
package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const lifetime = 10 * 365 * 24 * time.Hour

func main() {
	address := flag.String("address", "", "where the server is, besides loopback")
	node := flag.String("node", "", "also for a node of this name")
	flag.Parse()
	if flag.NArg() != 1 || (*address != "" && net.ParseIP(*address) == nil) {
		fmt.Fprintln(os.Stderr, "usage: keys [--address IP] [--node NAME] DIRECTORY")
		os.Exit(2)
	}
	if err := write(flag.Arg(0), net.ParseIP(*address), *node); err != nil {
		fmt.Fprintln(os.Stderr, "keys:", err)
		os.Exit(1)
	}
}

func write(directory string, address net.IP, node string) error {
	// Written last, so its presence says that all the others are there and belong together.
	finished := filepath.Join(directory, "service-account.pub")
	if _, err := os.Stat(finished); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(directory, 0o700); err != nil {
		return err
	}
	authority, err := newAuthority(directory)
	if err != nil {
		return err
	}
	certificates := map[string]*x509.Certificate{
		"apiserver": servingCertificate(address),
		"admin":     clientCertificate("admin", "system:masters"),
	}
	if node != "" {
		certificates["node"] = clientCertificate("system:node:"+node, "system:nodes")
		certificates["kubelet"] = kubeletCertificate(node, address)
	}
	for name, certificate := range certificates {
		if err := authority.issue(directory, name, certificate); err != nil {
			return err
		}
	}
	// RSA as in most clusters: tokens then carry RS256, and /openid/v1/jwks shows what clients usually meet.
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return err
	}
	if err := writeKey(filepath.Join(directory, "service-account.key"), key); err != nil {
		return err
	}
	public, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return writePEM(finished, "PUBLIC KEY", public, 0o644)
}

func servingCertificate(address net.IP) *x509.Certificate {
	certificate := &x509.Certificate{
		Subject:  pkix.Name{CommonName: "kube-apiserver"},
		KeyUsage: x509.KeyUsageDigitalSignature,
		DNSNames: []string{
			"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local",
		},
		// 10.0.0.1 is the kubernetes Service: the first address of the service range that upstream/serve and cluster set.
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback, net.IPv4(10, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if address != nil {
		certificate.IPAddresses = append(certificate.IPAddresses, address)
	}
	return certificate
}

func kubeletCertificate(node string, address net.IP) *x509.Certificate {
	certificate := &x509.Certificate{
		Subject:     pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		DNSNames:    []string{node},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if address != nil {
		certificate.IPAddresses = []net.IP{address}
	}
	return certificate
}

func clientCertificate(user, group string) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: user, Organization: []string{group}},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
}

type authority struct {
	certificate *x509.Certificate
	key         crypto.Signer
}

func newAuthority(directory string) (*authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	certificate := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "atoll-upstream-ca"},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	// Self-signed: as its own parent it also gets the subject key identifier that issued certificates refer to.
	own := &authority{certificate: certificate, key: key}
	encoded, err := own.sign(certificate, key.Public())
	if err != nil {
		return nil, err
	}
	if own.certificate, err = x509.ParseCertificate(encoded); err != nil {
		return nil, err
	}
	if err := writeKey(filepath.Join(directory, "ca.key"), key); err != nil {
		return nil, err
	}
	return own, writePEM(filepath.Join(directory, "ca.crt"), "CERTIFICATE", encoded, 0o644)
}

func (a *authority) issue(directory, name string, template *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	encoded, err := a.sign(template, key.Public())
	if err != nil {
		return err
	}
	if err := writeKey(filepath.Join(directory, name+".key"), key); err != nil {
		return err
	}
	return writePEM(filepath.Join(directory, name+".crt"), "CERTIFICATE", encoded, 0o644)
}

func (a *authority) sign(template *x509.Certificate, public crypto.PublicKey) ([]byte, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	template.SerialNumber = serial
	// An hour back: virtual machines that just resumed may lag behind the machine that made the certificate.
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = template.NotBefore.Add(lifetime)
	return x509.CreateCertificate(rand.Reader, template, a.certificate, public, a.key)
}

func writeKey(path string, key crypto.PrivateKey) error {
	encoded, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "PRIVATE KEY", encoded, 0o600)
}

func writePEM(path, kind string, encoded []byte, mode os.FileMode) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: encoded}), mode)
}
