//! Where an HTTP/1.1 answer ends, found out with as little work as possible: the load generator shares the cores
//! with the server that it measures.

use std::borrow::Cow;

/// Reads answers off a connection, piece by piece.
#[derive(Debug, Default)]
pub struct Framing {
    state: State,
    /// What has come of a line, or of the head, that did not fit in one piece.
    partial: Vec<u8>,
    status: u16,
    /// Bytes of body so far.
    length: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Head,
    /// So many bytes of body are to come, and that is all.
    Body(usize),
    ChunkSize,
    /// So many bytes of a chunk are to come.
    Chunk(usize),
    /// The line end behind a chunk.
    ChunkEnd,
    /// The empty line behind the last chunk; trailers were not asked for.
    Trailer,
}

/// An answer that has come in whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    /// Bytes of body, without framing.
    pub length: usize,
}

impl Framing {
    /// Takes in `piece` and shows what is body to `body`. Returns the answer if this was the end of one; what then
    /// follows in `piece` would be an answer to nothing, so it is an error.
    pub fn feed(&mut self, piece: &[u8], mut body: impl FnMut(&[u8])) -> Result<Option<Answer>, String> {
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
                    return Err(format!("{} bytes follow an answer that has ended", rest.len()));
                }
                let answer = Answer { status: self.status, length: self.length };
                (self.state, self.length) = (State::Head, 0);
                return Ok(Some(answer));
            }
            if rest.is_empty() {
                return Ok(None);
            }
        }
    }

    /// The status of the answer that is coming in; 0 as long as its head is not there.
    pub fn status(&self) -> u16 {
        if self.state == State::Head { 0 } else { self.status }
    }

    /// What comes before `end`, if that has come. What lies in one piece is found there: most of a piece is body, and only
    /// what has to wait for the next one is copied.
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
        // The end may lie across the border of two pieces.
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
        self.status = status.ok_or_else(|| format!("not an HTTP answer: {text:?}"))?;
        self.state = State::Body(0);
        for line in lines {
            let Some((name, value)) = line.split_once(':') else { continue };
            if name.eq_ignore_ascii_case("content-length") {
                let length = value.trim().parse().map_err(|_| format!("not a length: {value:?}"))?;
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
    usize::from_str_radix(digits, 16).map_err(|_| format!("not the size of a chunk: {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feeds `wire` in pieces of `size`, and returns the bodies with the answers.
    fn read(wire: &[u8], size: usize) -> Result<Vec<(Answer, String)>, String> {
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
    fn answers_end_where_they_say_however_they_arrive() {
        let counted = "HTTP/1.1 201 Created\r\nContent-Length: 5\r\nA: b\r\n\r\nhello";
        let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n";
        let empty = "HTTP/1.1 204 No Content\r\n\r\n";
        for size in [1, 2, 3, 7, 1000] {
            let read = |wire: &str| read(wire.as_bytes(), size).unwrap();
            assert_eq!(read(counted), [(Answer { status: 201, length: 5 }, "hello".into())], "{size}");
            assert_eq!(
                read(chunked),
                [(Answer { status: 200, length: 13 }, "abc0123456789".into())],
                "{size}"
            );
            assert_eq!(read(empty), [(Answer { status: 204, length: 0 }, String::new())], "{size}");
        }
        assert_eq!(read(format!("{counted}{chunked}{counted}").as_bytes(), 1).unwrap().len(), 3);
    }

    #[test]
    fn nonsense_is_refused() {
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
