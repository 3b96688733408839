//! Headers of SPDY streams: length-prefixed names and values, compressed with a fixed dictionary.

// upstream: github.com/moby/spdystream/spdy/dictionary.go

use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

use super::frame::FrameError;

/// Maximum size of an uncompressed block.
const LARGEST_BLOCK: usize = 64 << 10;
const MOST_HEADERS: usize = 100;

/// Words at the start of the dictionary, each prefixed with its length.
const WORDS: [&str; 65] = [
    "options",
    "head",
    "post",
    "put",
    "delete",
    "trace",
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "accept-ranges",
    "age",
    "allow",
    "authorization",
    "cache-control",
    "connection",
    "content-base",
    "content-encoding",
    "content-language",
    "content-length",
    "content-location",
    "content-md5",
    "content-range",
    "content-type",
    "date",
    "etag",
    "expect",
    "expires",
    "from",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "last-modified",
    "location",
    "max-forwards",
    "pragma",
    "proxy-authenticate",
    "proxy-authorization",
    "range",
    "referer",
    "retry-after",
    "server",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "user-agent",
    "vary",
    "via",
    "warning",
    "www-authenticate",
    "method",
    "get",
    "status",
    "200 OK",
    "version",
    "HTTP/1.1",
    "url",
    "public",
    "set-cookie",
    "keep-alive",
    "origin",
];

/// The rest of the dictionary, without lengths.
const REST: &str = concat!(
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505",
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized",
    "403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable",
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT",
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,",
    "text/javascript,publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0.",
);

fn dictionary() -> Vec<u8> {
    let mut bytes = Vec::new();
    for word in WORDS {
        put(word.as_bytes(), &mut bytes);
    }
    bytes.extend_from_slice(REST.as_bytes());
    bytes
}

fn put(text: &[u8], into: &mut Vec<u8>) {
    into.extend_from_slice(&(text.len() as u32).to_be_bytes());
    into.extend_from_slice(text);
}

/// The headers of a stream. Names are in lower case on the wire and compared case-insensitively.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Headers(Vec<(String, String)>);

impl Headers {
    pub fn new<const N: usize>(headers: [(&str, &str); N]) -> Self {
        Headers(headers.map(|(name, value)| (name.to_ascii_lowercase(), value.to_string())).into())
    }

    /// Returns the first value of a header.
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.split('\0').next().unwrap_or_default())
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = (self.0.len() as u32).to_be_bytes().to_vec();
        for (name, value) in &self.0 {
            put(name.as_bytes(), &mut bytes);
            put(value.as_bytes(), &mut bytes);
        }
        bytes
    }

    fn parse(mut block: &[u8]) -> Result<Self, FrameError> {
        let count = take_length(&mut block)?;
        if count > MOST_HEADERS {
            return Err(FrameError::Headers);
        }
        let mut headers = Vec::with_capacity(count);
        for _ in 0..count {
            let mut text = || -> Result<String, FrameError> {
                let length = take_length(&mut block)?;
                let (text, rest) = block.split_at_checked(length).ok_or(FrameError::Headers)?;
                block = rest;
                String::from_utf8(text.to_vec()).map_err(|_| FrameError::Headers)
            };
            headers.push((text()?.to_ascii_lowercase(), text()?));
        }
        Ok(Headers(headers))
    }
}

fn take_length(block: &mut &[u8]) -> Result<usize, FrameError> {
    let (length, rest) = block.split_first_chunk::<4>().ok_or(FrameError::Headers)?;
    *block = rest;
    Ok(u32::from_be_bytes(*length) as usize)
}

/// Compresses the headers of one direction of a connection; each block depends on the previous ones.
pub struct Packer(Compress);

impl Default for Packer {
    fn default() -> Self {
        let mut compress = Compress::new(Compression::best(), true);
        // This can only fail after something was compressed.
        let set = compress.set_dictionary(&dictionary());
        debug_assert!(set.is_ok());
        Packer(compress)
    }
}

impl Packer {
    pub fn pack(&mut self, headers: &Headers) -> Vec<u8> {
        let block = headers.encode();
        // Upper bound of the compressed size.
        let mut packed = Vec::with_capacity(block.len() + block.len() / 8 + 64);
        let (start, mut done) = (self.0.total_in(), 0);
        loop {
            let outcome = self.0.compress_vec(&block[done..], &mut packed, FlushCompress::Sync);
            done = (self.0.total_in() - start) as usize;
            let complete = done == block.len() && packed.len() < packed.capacity();
            if complete || outcome.is_err() {
                return packed;
            }
            packed.reserve(64);
        }
    }
}

/// Decompresses the headers of the other direction.
pub struct Unpacker(Decompress);

impl Default for Unpacker {
    fn default() -> Self {
        Unpacker(Decompress::new(true))
    }
}

impl Unpacker {
    pub fn unpack(&mut self, packed: &[u8]) -> Result<Headers, FrameError> {
        let mut block = Vec::with_capacity(1024);
        let (start, mut done) = (self.0.total_in(), 0);
        while done < packed.len() {
            if block.len() == block.capacity() {
                block.reserve(1024);
            }
            if block.len() > LARGEST_BLOCK {
                return Err(FrameError::Headers);
            }
            let before = (done, block.len());
            let outcome = self.0.decompress_vec(&packed[done..], &mut block, FlushDecompress::Sync);
            done = (self.0.total_in() - start) as usize;
            match outcome {
                Ok(Status::StreamEnd) => return Err(FrameError::Headers),
                Ok(_) if before == (done, block.len()) && block.len() < block.capacity() => {
                    return Err(FrameError::Headers);
                }
                Ok(_) => {}
                Err(error) if error.needs_dictionary().is_some() => {
                    self.0.set_dictionary(&dictionary()).map_err(|_| FrameError::Headers)?;
                }
                Err(_) => return Err(FrameError::Headers),
            }
        }
        self.drain(&mut block)?;
        Headers::parse(&block)
    }

    /// Decompresses input that did not fit into the block yet.
    fn drain(&mut self, block: &mut Vec<u8>) -> Result<(), FrameError> {
        loop {
            if block.len() > LARGEST_BLOCK {
                return Err(FrameError::Headers);
            }
            if block.len() < block.capacity() {
                return Ok(());
            }
            block.reserve(1024);
            // The library returns an error when nothing is left.
            if self.0.decompress_vec(&[], block, FlushDecompress::Sync).is_err() {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dictionary_matches_the_specification() {
        let bytes = dictionary();
        assert_eq!(bytes.len(), 1423);
        // Its checksum is at the start of all compressed data.
        let packed = Packer::default().pack(&Headers::default());
        assert_eq!(packed[2..6], [0xe3, 0xc6, 0xa7, 0xc2]);
    }

    #[test]
    fn blocks_depend_on_previous_blocks() {
        let (mut packer, mut unpacker) = (Packer::default(), Unpacker::default());
        let long = "x".repeat(40_000);
        let all = [
            Headers::new([("streamType", "stdin"), ("port", "80")]),
            Headers::new([("streamType", "stdin"), ("requestID", "1")]),
            Headers::default(),
            Headers::new([("long", &long)]),
            Headers::new([("a", "b\0c")]),
        ];
        for headers in &all {
            let packed = packer.pack(headers);
            assert_eq!(unpacker.unpack(&packed).as_ref(), Ok(headers));
        }
        assert_eq!(all[0].get("STREAMTYPE"), Some("stdin"));
        assert_eq!((all[4].get("a"), all[4].get("b")), (Some("b"), None));
    }

    #[test]
    fn invalid_blocks_are_rejected() {
        let pack = |block: &[u8]| {
            let mut compress = Compress::new(Compression::best(), true);
            compress.set_dictionary(&dictionary()).unwrap();
            let mut packed = Vec::with_capacity(block.len() + 1024);
            compress.compress_vec(block, &mut packed, FlushCompress::Sync).unwrap();
            packed
        };
        let cases: [&[u8]; 8] = [
            b"",
            b"\0\0",
            b"\0\0\0\x01",
            b"\0\0\0\x01\0\0\0\x05ab",
            b"\xff\xff\xff\xff",
            b"\0\0\0\x01\xff\xff\xff\xff",
            b"\0\0\0\x01\0\0\0\x01\xff\0\0\0\0",
            &[0; 100_000],
        ];
        for case in cases {
            let seen = Unpacker::default().unpack(&pack(case));
            // A block of zeroes has no headers, and trailing data.
            assert_eq!(seen, Err(FrameError::Headers), "{:?}", &case[..case.len().min(20)]);
        }
        for garbage in [&b"garbage"[..], b"\x78\x9c", b"\x78\xbb\0\0\0\0\0", &[]] {
            assert!(Unpacker::default().unpack(garbage).is_err());
        }
    }
}
