//! Finds the end of HTTP/1.1 responses with little work, because the load generator shares the cores with the
//! server under test.

use std::borrow::Cow;

/// An incremental parser of responses.
#[derive(Debug, Default)]
pub struct Framing {
    state: State,
    /// Incomplete line or head from earlier pieces.
    partial: Vec<u8>,
    status: u16,
    /// Bytes of the current body so far.
    length: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    /// Remaining bytes of a body with a Content-Length.
    Body(usize),
    ChunkSize,
    /// Remaining bytes of a chunk.
    Chunk(usize),
    /// The line end after a chunk.
    ChunkEnd,
    /// The empty line after the last chunk. Trailers are not requested.
    Trailer,
}

/// A complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HttpResponse {
    pub status: u16,
    /// Size of the body in bytes, without framing.
    pub length: usize,
}

impl Framing {
    /// Parses `piece` and passes body bytes to `body`. Returns the response if `piece` ends one. Bytes after
    /// the end of a response are an error, because there is no pipelining.
    pub fn feed(
        &mut self,
        piece: &[u8],
        mut body: impl FnMut(&[u8]),
    ) -> Result<Option<HttpResponse>, String> {
        let mut rest = piece;
        loop {
            let ended = match self.state {
                State::Head => {
                    let Some(head) = self.until(b"\r\n\r\n", &mut rest) else { return Ok(None) };
                    self.head(&head)?;
                    self.state == State::Body(0)
                }
                State::Body(left) => {
                    let taken = self.pass(left, &mut rest, &mut body);
                    self.state = State::Body(left - taken);
                    taken == left
                }
                State::ChunkSize => {
                    let Some(line) = self.until(b"\r\n", &mut rest) else { return Ok(None) };
                    self.state = match chunk_size(&line)? {
                        0 => State::Trailer,
                        size => State::Chunk(size),
                    };
                    false
                }
                State::Chunk(left) => {
                    let taken = self.pass(left, &mut rest, &mut body);
                    self.state = if taken == left { State::ChunkEnd } else { State::Chunk(left - taken) };
                    false
                }
                State::ChunkEnd => {
                    if self.until(b"\r\n", &mut rest).is_none() {
                        return Ok(None);
                    }
                    self.state = State::ChunkSize;
                    false
                }
                State::Trailer => self.until(b"\r\n", &mut rest).is_some(),
            };
            if ended {
                if !rest.is_empty() {
                    return Err(format!("{} bytes follow the end of a response", rest.len()));
                }
                let answer = HttpResponse { status: self.status, length: self.length };
                (self.state, self.length) = (State::Head, 0);
                return Ok(Some(answer));
            }
            if rest.is_empty() {
                return Ok(None);
            }
        }
    }

    /// Returns the status of the response that is being read, or 0 before its head is complete.
    pub fn status(&self) -> u16 {
        if self.state == State::Head { 0 } else { self.status }
    }

    /// Returns the bytes before `end` once `end` has been received. Bytes are copied only if they span two
    /// pieces.
    fn until<'a>(&mut self, end: &[u8], rest: &mut &'a [u8]) -> Option<Cow<'a, [u8]>> {
        let piece = *rest;
        let find = |bytes: &[u8]| bytes.windows(end.len()).position(|window| window == end);
        let before = self.partial.len();
        if before == 0
            && let Some(position) = find(piece)
        {
            *rest = &piece[position + end.len()..];
            return Some(Cow::Borrowed(&piece[..position]));
        }
        self.partial.extend_from_slice(piece);
        // `end` may be split between two pieces.
        let from = before.saturating_sub(end.len() - 1);
        let Some(position) = find(&self.partial[from..]).map(|position| position + from) else {
            *rest = &[];
            return None;
        };
        *rest = &piece[position + end.len() - before..];
        self.partial.truncate(position);
        Some(Cow::Owned(std::mem::take(&mut self.partial)))
    }

    fn pass(&mut self, left: usize, rest: &mut &[u8], body: &mut impl FnMut(&[u8])) -> usize {
        let (taken, behind) = rest.split_at(left.min(rest.len()));
        body(taken);
        self.length += taken.len();
        *rest = behind;
        taken.len()
    }

    fn head(&mut self, head: &[u8]) -> Result<(), String> {
        let text = std::str::from_utf8(head).map_err(|error| error.to_string())?;
        let mut lines = text.split("\r\n");
        let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
        self.status = status.ok_or_else(|| format!("not an HTTP response: {text:?}"))?;
        self.state = State::Body(0);
        for line in lines {
            let Some((name, value)) = line.split_once(':') else { continue };
            if name.eq_ignore_ascii_case("content-length") {
                let length =
                    value.trim().parse().map_err(|_| format!("invalid Content-Length: {value:?}"))?;
                self.state = State::Body(length);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                self.state = State::ChunkSize;
            }
        }
        Ok(())
    }
}

fn chunk_size(line: &[u8]) -> Result<usize, String> {
    let text = std::str::from_utf8(line).map_err(|error| error.to_string())?;
    let digits = text.split(';').next().unwrap_or_default().trim();
    usize::from_str_radix(digits, 16).map_err(|_| format!("invalid chunk size: {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `wire` in pieces of `size` and returns the responses with their bodies.
    fn read(wire: &[u8], size: usize) -> Result<Vec<(HttpResponse, String)>, String> {
        let mut framing = Framing::default();
        let (mut answers, mut body) = (Vec::new(), Vec::new());
        for piece in wire.chunks(size) {
            if let Some(answer) = framing.feed(piece, |bytes| body.extend_from_slice(bytes))? {
                answers.push((answer, String::from_utf8(std::mem::take(&mut body)).unwrap()));
            }
        }
        Ok(answers)
    }

    #[test]
    fn responses_are_complete_at_any_piece_size() {
        let counted = "HTTP/1.1 201 Created\r\nContent-Length: 5\r\nA: b\r\n\r\nhello";
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n";
        let empty = "HTTP/1.1 204 No Content\r\n\r\n";
        for size in [1, 2, 3, 7, 1000] {
            let read = |wire: &str| read(wire.as_bytes(), size).unwrap();
            assert_eq!(read(counted), [(HttpResponse { status: 201, length: 5 }, "hello".into())], "{size}");
            assert_eq!(
                read(chunked),
                [(HttpResponse { status: 200, length: 13 }, "abc0123456789".into())],
                "{size}"
            );
            assert_eq!(read(empty), [(HttpResponse { status: 204, length: 0 }, String::new())], "{size}");
        }
        assert_eq!(read(format!("{counted}{chunked}{counted}").as_bytes(), 1).unwrap().len(), 3);
    }

    #[test]
    fn invalid_responses_are_rejected() {
        for wire in [
            "SSH-2.0-OpenSSH\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: five\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
        ] {
            assert!(read(wire.as_bytes(), 1000).is_err(), "{wire}");
        }
    }
}
