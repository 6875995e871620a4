/* undertow_verify: checks a certificate that undertow wrote, and shares no line with undertow.
 *
 *   cc -O2 -std=c99 -o undertow_verify undertow_verify.c
 *   ./undertow_verify certificate.json        (- reads standard input)
 *
 * Exit code 0: the upper end that is claimed is proved. 1: it is not, or the file is malformed; one
 * line says why. 2: wrong usage. The format and the mathematics: docs/certificates.md.
 *
 * Arithmetic. Only + - * / on IEEE doubles, rounded to nearest, and strtod. One operation errs by
 * at most half a unit in the last place, so the neighbouring double above (below) its result is an
 * upper (lower) end. No function of libm is called: the exponential is summed below.
 */
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__FAST_MATH__)
#error "compile without -ffast-math: the check depends on IEEE arithmetic"
#endif
#if FLT_EVAL_METHOD != 0
#error "doubles must be evaluated as doubles; on 32-bit x86 compile with -msse2 -mfpmath=sse"
#endif

enum { STATES = 64, STEPS = 65536, COUNTED = 128, DEEPEST = 16, FIELDS = 16, CONDITIONS = 64 };
static const double LARGEST = 600.0;         /* gains, levels and upper ends */
static const double WORK = 2147483648.0;     /* products of a check, at most */
static const double TINY = 1e-300;           /* covers products too small for a double */
static const long FILE_SIZE = 16L << 20;

static void die(const char *why) {
  printf("%s%s\n", strncmp(why, "not checkable", 13) ? "rejected: " : "", why);
  exit(1);
}

static void *allocate(size_t count, size_t size) { /* kept in a list: the end of the program frees it */
  static void *kept = NULL;
  if (count > ((size_t)1 << 40) / size) die("it needs too much memory");
  void **block = calloc(1, sizeof(void *) * 2 + count * size);
  if (!block) die("it needs too much memory");
  block[0] = kept;
  kept = block;
  return block + 2;
}

/* --- directed rounding ----------------------------------------------------------------------- */

static double next_up(double x) { /* the next double above; infinity stays */
  int64_t bits;
  if (x == 0) return 4.9406564584124654e-324;
  if (x != x || x > DBL_MAX) return x;
  memcpy(&bits, &x, sizeof bits);
  bits += x > 0 ? 1 : -1;
  memcpy(&x, &bits, sizeof x);
  return x;
}
static double next_down(double x) { return -next_up(-x); }
static double low_of(double x) { return x > 0 ? next_down(x) : 0; } /* of what is not negative */

typedef struct { double lo, hi; } Interval; /* of a number that is not negative; hi 0: exactly 0 */

static Interval point(double x) { Interval r; r.lo = r.hi = x; return r; }
static Interval plus(Interval a, Interval b) {
  Interval r;
  r.lo = low_of(a.lo + b.lo);
  r.hi = a.hi == 0 && b.hi == 0 ? 0 : next_up(a.hi + b.hi);
  return r;
}
static Interval times(Interval a, Interval b) {
  Interval r;
  r.lo = low_of(a.lo * b.lo);
  r.hi = a.hi == 0 || b.hi == 0 ? 0 : next_up(a.hi * b.hi);
  return r;
}
static Interval over(Interval a, Interval b) { /* b.lo > 0 */
  Interval r;
  r.lo = low_of(a.lo / b.hi);
  r.hi = a.hi == 0 ? 0 : next_up(a.hi / b.lo);
  return r;
}

/* e^x for x >= 0: the series at x / 2^m <= 1/2, innermost factor first, then m squarings. */
static Interval exp_of(double x) {
  int squarings = 0, term;
  Interval r;
  while (x > 0.5) { x /= 2; squarings++; } /* exact */
  r.lo = r.hi = 1;
  for (term = 20; term > 0; term--) {
    if (term == 20) r.hi = next_up(1 + x); /* 1 + x/21 + x^2/(21 22) + ... <= 1 + x */
    r.lo = low_of(1 + low_of(low_of(r.lo * x) / term));
    r.hi = next_up(1 + next_up(next_up(r.hi * x) / term));
  }
  while (squarings-- > 0) { r.lo = low_of(r.lo * r.lo); r.hi = next_up(r.hi * r.hi); }
  return r;
}
static Interval exp_minus(double x) { return over(point(1), exp_of(x)); } /* e^-x for x >= 0 */

/* --- JSON: RFC 8259, every key once, numbers that a double holds ------------------------------ */

typedef enum { NIL, TRUE, FALSE, NUMBER, TEXT, LIST, OBJECT } Kind;
typedef struct Node {
  Kind kind;
  double number;
  int whole;             /* written without fraction and exponent */
  char *text;            /* of a TEXT, in UTF-8 */
  size_t length;         /* bytes of the text, entries of a LIST or an OBJECT */
  char *key;             /* inside an OBJECT */
  size_t key_length;
  struct Node *first, *next;
} Node;

static const unsigned char *at, *end;

static void blank(void) {
  while (at < end && (*at == ' ' || *at == '\t' || *at == '\n' || *at == '\r')) at++;
}
static int peek(void) { return at < end ? *at : -1; }
static void expect(const char *word) {
  size_t n = strlen(word);
  if ((size_t)(end - at) < n || memcmp(at, word, n)) die("it is not JSON");
  at += n;
}
static unsigned hex4(void) {
  unsigned value = 0;
  int i;
  for (i = 0; i < 4; i++) {
    int c = peek();
    if (c >= '0' && c <= '9') value = value * 16 + (unsigned)(c - '0');
    else if (c >= 'a' && c <= 'f') value = value * 16 + (unsigned)(c - 'a' + 10);
    else if (c >= 'A' && c <= 'F') value = value * 16 + (unsigned)(c - 'A' + 10);
    else die("it is not JSON");
    at++;
  }
  return value;
}
static size_t put(char *to, size_t n, unsigned code) { /* UTF-8 */
  if (code < 0x80) { to[n++] = (char)code; return n; }
  if (code < 0x800) to[n++] = (char)(0xC0 | code >> 6);
  else {
    if (code < 0x10000) to[n++] = (char)(0xE0 | code >> 12);
    else { to[n++] = (char)(0xF0 | code >> 18); to[n++] = (char)(0x80 | (code >> 12 & 63)); }
    to[n++] = (char)(0x80 | (code >> 6 & 63));
  }
  to[n++] = (char)(0x80 | (code & 63));
  return n;
}
static size_t plain(char *to, size_t n) { /* one character that is no escape, checked */
  static const unsigned least[4] = {0, 0x80, 0x800, 0x10000};
  unsigned c = *at++, code = c;
  int more = c < 0x80 ? 0 : c >= 0xC2 && c < 0xE0 ? 1 : (c & 0xF0) == 0xE0 ? 2 : c >= 0xF0 && c < 0xF5 ? 3 : -1, i;
  if (c < 0x20 || more < 0) die("it is not JSON in UTF-8");
  if (more) code = c & (0x3Fu >> more);
  for (i = 0; i < more; i++) {
    if (peek() < 0 || (peek() & 0xC0) != 0x80) die("it is not JSON in UTF-8");
    code = code << 6 | (*at++ & 63u);
  }
  if (code < least[more] || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) die("it is not JSON in UTF-8");
  return put(to, n, code);
}
static char *string(size_t *length) {
  const unsigned char *stop;
  char *text;
  size_t n = 0;
  expect("\"");
  for (stop = at; stop < end && *stop != '"'; stop++) if (*stop == '\\') stop++;
  if (stop >= end) die("it is not JSON");
  text = allocate((size_t)(stop - at) + 1, 1); /* decoding makes no text longer */
  while (peek() != '"') {
    static const char names[] = "\"\\/bfnrt", codes[] = "\"\\/\b\f\n\r\t";
    const char *found;
    unsigned code;
    if (peek() != '\\') { n = plain(text, n); continue; }
    at++;
    if (peek() == 'u') {
      at++;
      code = hex4();
      if (code >= 0xD800 && code < 0xDC00 && end - at > 5 && at[0] == '\\' && at[1] == 'u') {
        unsigned second;
        at += 2;
        second = hex4();
        if (second >= 0xDC00 && second < 0xE000) code = 0x10000 + ((code - 0xD800) << 10) + second - 0xDC00;
        else { n = put(text, n, code); code = second; }
      }
      n = put(text, n, code);
      continue;
    }
    found = peek() > 0 ? strchr(names, peek()) : NULL;
    if (!found) die("it is not JSON");
    text[n++] = codes[found - names];
    at++;
  }
  at++;
  *length = n;
  return text;
}
static Node *value(int depth);

static Node *number(Node *node) {
  const unsigned char *start = at;
  char *stop;
  node->kind = NUMBER;
  node->whole = 1;
  if (peek() == '-') at++;
  if (peek() == '0') at++;
  else if (peek() >= '1' && peek() <= '9') while (peek() >= '0' && peek() <= '9') at++;
  else die("it is not JSON");
  if (peek() == '.') {
    node->whole = 0;
    at++;
    if (peek() < '0' || peek() > '9') die("it is not JSON");
    while (peek() >= '0' && peek() <= '9') at++;
  }
  if (peek() == 'e' || peek() == 'E') {
    node->whole = 0;
    at++;
    if (peek() == '+' || peek() == '-') at++;
    if (peek() < '0' || peek() > '9') die("it is not JSON");
    while (peek() >= '0' && peek() <= '9') at++;
  }
  node->number = strtod((const char *)start, &stop); /* the buffer ends with a zero byte */
  if ((const unsigned char *)stop != at) die("it is not JSON");
  if (!(node->number <= DBL_MAX && node->number >= -DBL_MAX)) die("it holds a number that no double holds");
  return node;
}
static Node *members(Node *node, int depth) { /* of a list or an object, after the bracket */
  int object = node->kind == OBJECT;
  Node **link = &node->first, *other;
  blank();
  if (peek() == (object ? '}' : ']')) { at++; return node; }
  for (;;) {
    char *key = NULL;
    size_t key_length = 0;
    blank();
    if (object) {
      key = string(&key_length);
      for (other = node->first; other; other = other->next)
        if (other->key_length == key_length && !memcmp(other->key, key, key_length)) die("it names a field twice");
      if (node->length >= FIELDS) die("it has an object with too many fields");
      blank();
      expect(":");
    }
    *link = value(depth + 1);
    (*link)->key = key;
    (*link)->key_length = key_length;
    link = &(*link)->next;
    node->length++;
    blank();
    if (peek() == ',') { at++; continue; }
    expect(object ? "}" : "]");
    return node;
  }
}
static Node *value(int depth) {
  Node *node = allocate(1, sizeof *node);
  if (depth > DEEPEST) die("it is nested too deeply");
  blank();
  switch (peek()) {
    case '{': at++; node->kind = OBJECT; return members(node, depth);
    case '[': at++; node->kind = LIST; return members(node, depth);
    case '"': node->kind = TEXT; node->text = string(&node->length); return node;
    case 't': expect("true"); node->kind = TRUE; return node;
    case 'f': expect("false"); node->kind = FALSE; return node;
    case 'n': expect("null"); node->kind = NIL; return node;
    default: return number(node);
  }
}

/* --- fields, with their types and limits ------------------------------------------------------ */

static Node *optional(const Node *object, const char *name) {
  Node *member;
  size_t n = strlen(name);
  if (object->kind != OBJECT) die("an object with fields is required where something else stands");
  for (member = object->first; member; member = member->next)
    if (member->key_length == n && !memcmp(member->key, name, n)) return member;
  return NULL;
}
static Node *field(const Node *object, const char *name) {
  static char why[96];
  Node *member = optional(object, name);
  if (member) return member;
  snprintf(why, sizeof why, "a field is missing: %s", name);
  die(why);
  return NULL;
}
static void only(const Node *object, size_t count) { /* all of `count` were asked for: none is left over */
  if (object->length != count) die("it has a field that is not known");
}
static int is(const Node *node, const char *word) {
  return node->kind == TEXT && node->length == strlen(word) && !memcmp(node->text, word, node->length);
}
static double real(const Node *node, double least, double most, const char *why) {
  if (node->kind != NUMBER || !(node->number >= least && node->number <= most)) die(why);
  return node->number;
}
static int whole(const Node *node, double least, double most, const char *why) {
  if (node->kind != NUMBER || !node->whole || !(node->number >= least && node->number <= most)) die(why);
  return (int)node->number;
}
static Node *entries(const Node *node, size_t least, size_t most, const char *why) {
  if (node->kind != LIST || node->length < least || node->length > most) die(why);
  return node->first;
}
static void law(const Node *node, size_t size, Interval *to, const char *why) { /* divided by its sum */
  Node *entry;
  Interval sum = point(0);
  size_t i = 0;
  for (entry = entries(node, size, size, why); entry; entry = entry->next) {
    to[i] = point(real(entry, 0, 1, why));
    sum = plus(sum, to[i++]);
  }
  if (!(sum.lo >= 1 - 1e-12 && sum.hi <= 1 + 1e-12)) die(why);
  for (i = 0; i < size; i++) to[i] = over(to[i], sum);
}

/* --- the claim -------------------------------------------------------------------------------- */

static int k;                                /* states */
static double n_records;                     /* length, 0 for any */
static int against_any, against_informed, stationary_start;
static Interval P[STATES][STATES], start_law[STATES];
static double upper, own[STATES][STATES], spend[STATES];
static int counted[STATES], is_count;
static double rate_up, rate_down;            /* 1 / scale */

static void read_model(const Node *model) {
  Node *row, *other;
  int i = 0;
  const Node *states = field(model, "states"), *start = field(model, "start"), *length = field(model, "length");
  only(model, 5);
  if (!is(field(model, "kind"), "markov-chain")) die("not checkable: the model is no Markov chain");
  for (row = entries(states, 2, STATES, "states must be a list of 2 to 64 texts"); row; row = row->next) {
    if (row->kind != TEXT) die("states must be texts");
    for (other = states->first; other != row; other = other->next)
      if (other->length == row->length && !memcmp(other->text, row->text, row->length)) die("two states have the same name");
  }
  k = (int)states->length;
  for (row = entries(field(model, "transition"), states->length, states->length, "transition must have a row for each state"); row; row = row->next)
    law(row, states->length, P[i++], "a row of transition must be probabilities that sum to 1");
  stationary_start = is(start, "stationary");
  if (!stationary_start) law(start, states->length, start_law, "start must be probabilities that sum to 1");
  if (length->kind != NIL) n_records = whole(length, 2, 1e9, "length must be null or a whole number from 2");
}

static void read_flips(const Node *mechanism, const Node *proof) {
  static Interval B[STATES][STATES];
  const Node *matrix = field(mechanism, "matrix"), *told = field(proof, "own");
  Node *row, *entry;
  size_t width;
  int x, y, z;
  double least = 1;
  only(mechanism, 2);
  row = entries(matrix, (size_t)k, (size_t)k, "matrix must have a row for each state");
  width = row->kind == LIST ? row->length : 0;
  if (width < 1 || width > STATES) die("matrix must have 1 to 64 columns");
  for (x = 0; row; row = row->next) law(row, width, B[x++], "a row of matrix must be probabilities that sum to 1");
  for (x = 0, row = entries(told, (size_t)k, (size_t)k, "own must have a row for each state"); row; row = row->next, x++)
    for (y = 0, entry = entries(row, (size_t)k, (size_t)k, "own must have a column for each state"); entry; entry = entry->next, y++)
      own[x][y] = real(entry, 0, LARGEST, "own must be numbers from 0 to 600");
  for (x = 0; x < k; x++) spend[x] = 1;
  for (x = 0; x < k; x++) for (y = 0; y < k; y++) for (z = 0; x != y && z < (int)width; z++) {
    /* Pr[z | x] <= e^own Pr[z | y], and Pr[z | y] >= spend(y) Pr[z | x] */
    double ratio;
    if (B[x][z].hi == 0) continue;
    if (!(low_of(B[y][z].lo * exp_of(own[x][y]).lo) >= B[x][z].hi)) die("own is less than what one flipped record tells");
    ratio = low_of(B[y][z].lo / B[x][z].hi);
    if (ratio < spend[y]) spend[y] = ratio;
    if (ratio < least) least = ratio;
  }
  if (k > 2) for (x = 0; x < k; x++) spend[x] = least; /* two states: each direction has its own */
}

static void read_mechanism(const Node *mechanism, const Node *proof) {
  const Node *kind = field(mechanism, "kind");
  Node *mark;
  double level = 0, scale;
  int x, y = 0;
  if (is(kind, "randomized-response")) { read_flips(mechanism, proof); return; }
  if (is(kind, "pure-dp")) {
    only(mechanism, 2);
    level = real(field(mechanism, "epsilon"), 0, LARGEST, "epsilon must be a number from 0 to 600");
  } else if (is(kind, "laplace") || is(kind, "discrete-laplace")) {
    const Node *query = field(mechanism, "query");
    is_count = is(query, "count");
    scale = real(field(mechanism, "scale"), 1 / LARGEST, 1e300, "scale must be a number from 1/600");
    rate_up = next_up(1 / scale);
    rate_down = low_of(1 / scale);
    level = is_count ? rate_up : 2 * rate_up; /* a replaced record moves a count by 1, two bins by 1 each */
    if (is_count)
      for (mark = entries(field(mechanism, "counted"), (size_t)k, (size_t)k, "counted must say true or false for every state"); mark; mark = mark->next) {
        if (mark->kind != TRUE && mark->kind != FALSE) die("counted must say true or false for every state");
        counted[y++] = mark->kind == TRUE;
      }
    else if (!is(query, "histogram")) die("not checkable: the query is no count and no histogram");
    only(mechanism, is_count ? 4 : 3);
  } else die("not checkable: the mechanism is of no kind known here");
  for (x = 0; x < k; x++) {
    spend[x] = exp_minus(level).lo;
    for (y = 0; y < k; y++) own[x][y] = x == y || (is_count && counted[x] == counted[y]) ? 0 : level;
  }
}

static void stationary_law(void) { /* elimination without a subtraction (Grassmann, Taksar, Heyman) */
  static Interval A[STATES][STATES];
  Interval sum = point(0);
  int i, j, m;
  memcpy(A, P, sizeof A);
  for (m = k - 1; m > 0; m--) {
    Interval leaving = point(0);
    for (j = 0; j < m; j++) leaving = plus(leaving, A[m][j]);
    if (!(leaving.lo > 0)) die("not checkable: the stationary law is not that of all states");
    for (i = 0; i < m; i++) {
      A[i][m] = over(A[i][m], leaving);
      for (j = 0; j < m; j++) A[i][j] = plus(A[i][j], times(A[i][m], A[m][j]));
    }
  }
  for (m = 0; m < k; m++) {
    start_law[m] = point(m == 0);
    for (i = 0; i < m; i++) start_law[m] = plus(start_law[m], times(start_law[i], A[i][m]));
    sum = plus(sum, start_law[m]);
  }
  for (m = 0; m < k; m++) start_law[m] = over(start_law[m], sum);
}

/* Kernels outwards from the target: to the right P(y, z); to the left P(z, y), its transpose. */
static Interval kernel(int left, int y, int z) { return left ? P[z][y] : P[y][z]; }

static Interval *powers(int steps) { /* P^1 .. P^steps */
  Interval *table = allocate((size_t)steps * (size_t)(k * k), sizeof *table);
  int t, x, y, z;
  for (x = 0; x < k; x++) for (y = 0; y < k; y++) table[x * k + y] = P[x][y];
  for (t = 1; t < steps; t++) {
    Interval *last = table + (size_t)(t - 1) * (size_t)(k * k), *here = last + k * k;
    for (x = 0; x < k; x++) for (y = 0; y < k; y++) {
      Interval sum = point(0);
      for (z = 0; z < k; z++) sum = plus(sum, times(last[x * k + z], P[z][y]));
      here[x * k + y] = sum;
    }
  }
  return table;
}
static Interval *marginals(int steps) { /* Pr[X_t = x], t = 0 .. steps */
  Interval *laws = allocate((size_t)(steps + 1) * (size_t)k, sizeof *laws);
  int t, x, z;
  for (x = 0; x < k; x++) laws[x] = start_law[x];
  for (t = 1; t <= steps; t++) for (x = 0; x < k; x++) {
    Interval sum = point(0);
    if (stationary_start) { laws[t * k + x] = start_law[x]; continue; }
    for (z = 0; z < k; z++) sum = plus(sum, times(laws[(t - 1) * k + z], P[z][x]));
    laws[t * k + x] = sum;
  }
  return laws;
}

/* --- all algorithms of a level: one sweep for every mu ---------------------------------------- */
/* c_1 = K(x, .) - mu K(x', .), c_{t+1} = m(c_t) K, rounded up; m multiplies negative entries by
 * spend. c_t(v) <= 0: with v known at distance t no algorithm tells x from x' by more than mu.
 * The gain s is proved for the option where also mu Pr[option | x'] <= e^s Pr[option | x]. */

static int allowed(double mu, double limit, Interval ours, Interval theirs) {
  return next_up(mu * theirs.hi) <= low_of(limit * ours.lo);
}
static double product_up(double c, Interval w) { /* c w from above, for c of either sign */
  double weight = c > 0 ? w.hi : w.lo;
  return c == 0 || weight == 0 ? 0 : next_up(c * weight);
}
static double sum_up(double a, double b) { return a == 0 || b == 0 ? a + b : next_up(a + b); }

static double *read_gains(const Node *entry, int x, int y, int steps, size_t *rooms, const double **mus, size_t *count) {
  const Node *gains = field(entry, "gains"), *ratios = field(entry, "mus");
  Node *one;
  double *found, *list, before = 0;
  size_t i = 0;
  only(entry, 4);
  if (whole(field(entry, "value"), 0, k - 1, "value must be a state") != x || whole(field(entry, "other"), 0, k - 1, "other must be a state") != y)
    die("a side must have every pair of values once, in order");
  one = entries(gains, 1, STEPS, "gains must be one number, or one for each record");
  if (gains->length != 1 && (double)gains->length != n_records) die("gains must be one number, or one for each record");
  if (*rooms && *rooms != gains->length) die("all gains must be of one length");
  /* what lies beyond the steps is proved for the last gain alone */
  if (gains->length > 1 && steps != n_records - 1) die("gains for each record need all of them swept");
  *rooms = gains->length;
  found = allocate(gains->length, sizeof *found);
  for (; one; one = one->next) {
    found[i] = real(one, before, LARGEST, "gains must be numbers from 0 to 600 that do not fall");
    before = found[i++];
  }
  list = allocate(ratios->kind == LIST ? ratios->length + 1 : 1, sizeof *list);
  for (i = 0, one = entries(ratios, 1, STEPS, "mus must be a list of numbers"); one; one = one->next)
    list[i++] = real(one, 0, 1e300, "mus must be numbers from 0");
  *mus = list;
  *count = ratios->length;
  return found;
}

static void check_pair(int left, int x, int y, int steps, const Interval *table, const Interval *laws,
                       const double *gains, size_t rooms, const double *mus, size_t count) {
  /* proved[t][v], v = k for nothing known; allocated once, cleared for every pair */
  static unsigned char *proved = NULL;
  size_t wide = (size_t)k + 1, cells = ((size_t)steps + 1) * wide, j;
  int beyond = n_records == 0 || steps < n_records - 1, tail = !beyond, t, v, y2;
  double *limit = allocate(rooms, sizeof *limit);
  if (!proved) proved = allocate(cells, 1);
  memset(proved, 0, cells);
  for (j = 0; j < rooms; j++) limit[j] = exp_of(gains[j]).lo;
  for (j = 0; j < count; j++) {
    double c[STATES], moved[STATES], mu = mus[j], total;
    int positive = 0;
    for (v = 0; v < k; v++) {
      Interval ours = kernel(left, x, v), theirs = kernel(left, y, v);
      c[v] = ours.hi == 0 && theirs.hi == 0 ? 0 : next_up(ours.hi - low_of(mu * theirs.lo));
    }
    for (t = 1; t <= steps; t++) {
      const Interval *power = table + (size_t)(t - 1) * (size_t)(k * k);
      double room = limit[(size_t)t < rooms ? (size_t)t : rooms - 1], peak = 0, scale = 1;
      for (v = 0; against_any && v < k; v++) {
        Interval ours = left ? power[v * k + x] : power[x * k + v], theirs = left ? power[v * k + y] : power[y * k + v];
        if (ours.hi == 0 || theirs.hi == 0 || (c[v] <= 0 && allowed(mu, room, ours, theirs))) proved[(size_t)t * wide + (size_t)v] = 1;
      }
      for (v = 0, total = 0; v < k; v++) {
        if (c[v] < 0) c[v] = product_up(c[v], point(spend[v]));
        total = sum_up(total, product_up(c[v], left ? start_law[v] : point(1)));
      }
      {
        Interval ours = left ? laws[t * k + x] : point(1), theirs = left ? laws[t * k + y] : point(1);
        if (ours.hi == 0 || theirs.hi == 0 || (total <= 0 && allowed(mu, room, ours, theirs))) proved[(size_t)t * wide + (size_t)k] = 1;
      }
      if (t == steps) break;
      for (v = 0; v < k; v++) { double size = c[v] < 0 ? -c[v] : c[v]; if (size > peak) peak = size; }
      if (peak > 0 && peak < 0x1p-400) scale = 0x1p400;
      if (peak > 0x1p400) scale = 0x1p-400;
      for (v = 0; v < k; v++) if (scale != 1 && c[v] != 0) c[v] = next_up(c[v] * scale);
      for (v = 0; v < k; v++) for (moved[v] = 0, y2 = 0; y2 < k; y2++) moved[v] = sum_up(moved[v], product_up(c[y2], kernel(left, y2, v)));
      memcpy(c, moved, sizeof c);
    }
    /* c nowhere positive stays so: mu holds for all that lies beyond, where the prior ratio is a mean
     * of those at the last step (with nothing known to the right it is 1). m keeps signs. */
    for (v = 0; v < k; v++) positive |= c[v] > 0;
    if (beyond && !positive) {
      const Interval *power = table + (size_t)(steps - 1) * (size_t)(k * k);
      int all = 1;
      for (v = 0; v < k; v++) {
        Interval ours = left ? power[v * k + x] : power[x * k + v], theirs = left ? power[v * k + y] : power[y * k + v];
        if (!left && !against_any) ours = theirs = point(1);
        if (theirs.hi > 0 && !allowed(mu, limit[rooms - 1], ours, theirs)) all = 0;
      }
      tail |= all;
    }
  }
  for (t = 1; t <= steps; t++) for (v = against_any ? 0 : k; v <= k; v++)
    if (!proved[(size_t)t * wide + (size_t)v]) die("a gain is less than what the sweep at its mus proves");
  if (!tail) die("the gain of what lies beyond the steps is not proved");
}

static double swept(const Node *proof, int steps) {
  const Interval *table = powers(steps), *laws = marginals(steps);
  size_t rooms = 0, pairs = (size_t)(k * (k - 1)), room;
  double **gains[2], most = 0, work = 0;
  int side, x, y;
  for (side = 0; side < 2; side++) {
    Node *entry = entries(field(proof, side ? "right" : "left"), pairs, pairs, "a side must have every pair of values once");
    gains[side] = allocate((size_t)(k * k), sizeof **gains);
    for (x = 0; x < k; x++) for (y = 0; y < k; y++) {
      const double *mus;
      size_t count;
      if (x == y) continue;
      gains[side][x * k + y] = read_gains(entry, x, y, steps, &rooms, &mus, &count);
      work += (double)count * steps * k * k;
      if (work > WORK) die("checking it would take too long");
      check_pair(!side, x, y, steps, table, laws, gains[side][x * k + y], rooms, mus, count);
      entry = entry->next;
    }
  }
  for (x = 0; x < k; x++) for (y = 0; y < k; y++) for (room = 0; x != y && room < rooms; room++) {
    /* so many records on the left, the others on the right */
    double sum = next_up(next_up(gains[0][x * k + y][room] + gains[1][x * k + y][rooms - 1 - room]) + own[x][y]);
    if (sum > most) most = sum;
  }
  return most;
}

/* --- one noisy count: all windows -------------------------------------------------------------- */
/* An option of a side: v known at a distance, nothing known, or what lies beyond the steps. law[x][j]
 * = Pr[option, j counted among the unknown | x]; noisy with the noise; prior[x][x'] >= Pr[option | x']
 * / Pr[option | x]; told[x][x']: what the side tells by itself, 0 where it is no option. */

typedef enum { KNOWN, OPEN, BEYOND } Sort;
typedef struct { Sort sort; int records, counts; Interval *law, *noisy; double *prior, *told; } Option;

static Interval fade[2 * COUNTED + 4]; /* e^-m/b */

static Interval outward(double lo, double hi, int terms) { /* sums of so many products, rounded to nearest */
  double slack = 2 * (terms + 4) * DBL_EPSILON, low = lo * (1 - slack) - TINY;
  Interval r;
  r.lo = low > 0 ? low : 0;
  r.hi = hi * (1 + slack) + TINY;
  return r;
}
static void tell(Option *o) { /* noisy, and what the side tells */
  int x, y, s, j;
  o->noisy = allocate((size_t)(k * o->counts), sizeof *o->noisy);
  o->told = allocate((size_t)(k * k), sizeof *o->told);
  for (x = 0; x < k; x++) for (s = 0; s < o->counts; s++) {
    double lo = 0, hi = 0;
    for (j = 0; j < o->counts; j++) {
      Interval part = o->law[x * o->counts + j], noise = fade[j > s ? j - s : s - j];
      lo += part.lo * noise.lo;
      hi += part.hi * noise.hi;
    }
    o->noisy[x * o->counts + s] = outward(lo, hi, o->counts);
  }
  for (x = 0; x < k; x++) for (y = 0; y < k; y++) {
    double most = 0, prior = o->prior[x * k + y];
    if (x == y || prior == 0) continue;
    for (s = 0; s < o->counts; s++) {
      double less = o->noisy[y * o->counts + s].lo, ratio = less > 0 ? next_up(o->noisy[x * o->counts + s].hi / less) : HUGE_VAL;
      if (ratio > most) most = ratio;
    }
    o->told[x * k + y] = next_up(most * prior);
  }
}
static void priors(Option *o, const Interval *p) { /* p[x] = Pr[option | x]; 0 where it is no option */
  int x, y;
  o->prior = allocate((size_t)(k * k), sizeof *o->prior);
  for (x = 0; x < k; x++) for (y = 0; y < k; y++)
    if (p[x].hi > 0 && p[y].hi > 0) o->prior[x * k + y] = p[x].lo > 0 ? next_up(p[y].hi / p[x].lo) : HUGE_VAL;
}

static Option *side_options(int left, int steps, int *found) {
  Option *options = allocate((size_t)(steps + 1) * (size_t)(k + 1) + (size_t)k, sizeof *options), *o;
  Interval here[STATES], moved[STATES], column[STATES], *paths, *further, *counting, table[STATES][STATES], next[STATES][STATES];
  int x, v, z, j, t, n = 0, whole_series = n_records > 0 && steps == n_records - 1;
  size_t cells = (size_t)(k * k) * (size_t)(steps + 2);
  paths = allocate(cells, sizeof *paths);        /* [x][v][j]: j counted before v */
  counting = allocate(cells, sizeof *counting);  /* v counted too */
  further = allocate(cells, sizeof *further);
#define CELL(a, x, v, j) a[((size_t)((x) * k + (v))) * (size_t)(steps + 2) + (size_t)(j)]
  memset(here, 0, sizeof here);
  for (x = 0; x < k; x++) here[x] = left ? start_law[x] : point(1);
  o = options + n++;
  o->sort = OPEN; o->records = 0; o->counts = 1;
  o->law = allocate((size_t)k, sizeof *o->law);
  memcpy(o->law, here, (size_t)k * sizeof *here);
  priors(o, here);
  tell(o);
  for (x = 0; x < k; x++) for (v = 0; v < k; v++) CELL(paths, x, v, 0) = table[x][v] = kernel(left, x, v);
  for (t = 1; t <= steps; t++) {
    for (v = 0; against_any && v < k; v++) {
      o = options + n++;
      o->sort = KNOWN; o->records = o->counts = t;
      o->law = allocate((size_t)(k * t), sizeof *o->law);
      for (x = 0; x < k; x++) for (column[x] = table[x][v], j = 0; j < t; j++) o->law[x * t + j] = CELL(paths, x, v, j);
      priors(o, column);
      tell(o);
    }
    for (x = 0; left && !stationary_start && x < k; x++) {
      moved[x] = point(0);
      for (z = 0; z < k; z++) moved[x] = plus(moved[x], times(here[z], P[z][x]));
    }
    if (left && !stationary_start) memcpy(here, moved, sizeof here);
    for (x = 0; x < k; x++) for (v = 0; v < k; v++) for (j = 0; j <= t; j++) {
      int before = j - counted[v];
      CELL(counting, x, v, j) = before >= 0 && before < t ? CELL(paths, x, v, before) : point(0);
    }
    o = options + n++;
    o->sort = OPEN; o->records = t; o->counts = t + 1;
    o->law = allocate((size_t)(k * (t + 1)), sizeof *o->law);
    for (x = 0; x < k; x++) for (j = 0; j <= t; j++) {
      double lo = 0, hi = 0;
      for (v = 0; v < k; v++) {
        Interval far = left ? start_law[v] : point(1);
        lo += CELL(counting, x, v, j).lo * far.lo;
        hi += CELL(counting, x, v, j).hi * far.hi;
      }
      o->law[x * (t + 1) + j] = outward(lo, hi, k);
    }
    priors(o, here);
    tell(o);
    if (t == steps) break;
    for (x = 0; x < k; x++) for (z = 0; z < k; z++) {
      for (next[x][z] = point(0), v = 0; v < k; v++) next[x][z] = plus(next[x][z], times(table[x][v], kernel(left, v, z)));
      for (j = 0; j <= t; j++) {
        double lo = 0, hi = 0;
        for (v = 0; v < k; v++) {
          Interval step = kernel(left, v, z);
          lo += CELL(counting, x, v, j).lo * step.lo;
          hi += CELL(counting, x, v, j).hi * step.hi;
        }
        CELL(further, x, z, j) = outward(lo, hi, k);
      }
    }
    memcpy(paths, further, cells * sizeof *paths);
    memcpy(table, next, sizeof table);
  }
  for (v = 0; !whole_series && v < k; v++) { /* mixtures of these are all that lies beyond */
    int y;
    o = options + n++;
    o->sort = BEYOND; o->records = steps + 1; o->counts = steps;
    o->law = allocate((size_t)(k * steps), sizeof *o->law);
    o->prior = allocate((size_t)(k * k), sizeof *o->prior);
    for (x = 0; x < k; x++) for (j = 0; j < steps; j++) o->law[x * steps + j] = CELL(paths, x, v, j);
    for (x = 0; x < k; x++) for (y = 0; y < k; y++) {
      double worst = left || against_any ? 0 : 1;
      if (table[x][v].hi == 0 && table[y][v].hi == 0) continue; /* v occurs with neither */
      for (z = 0; (left || against_any) && z < k; z++) {
        double ratio = table[y][z].hi == 0 ? 0 : table[x][z].lo > 0 ? next_up(table[y][z].hi / table[x][z].lo) : HUGE_VAL;
        if (ratio > worst) worst = ratio;
      }
      o->prior[x * k + y] = worst;
    }
    tell(o);
  }
#undef CELL
  *found = n;
  return options;
}

static void spread(const Option *o, int x, int reach, int high, double *wide) { /* noisy at -reach .. */
  int m, n = o->counts;
  const Interval *row = o->noisy + x * n;
  for (m = 0; m < n + 2 * reach; m++) {
    int s = m - reach, far = s < 0 ? -s : s >= n ? s - n + 1 : 0;
    Interval a = row[s < 0 ? 0 : s >= n ? n - 1 : s];
    wide[m] = high ? a.hi * fade[far].hi : a.lo * fade[far].lo;
  }
}
static double window(const Option *a, const Option *b, int x, int y) { /* the largest ratio, from above */
  static double ours[3 * COUNTED + 8], theirs[3 * COUNTED + 8];
  int s, j, reach = b->counts;
  double most = 0, prior = next_up(a->prior[x * k + y] * b->prior[x * k + y]);
  spread(a, x, reach, 1, ours);
  spread(a, y, reach, 0, theirs);
  for (s = 0; s < a->counts + b->counts; s++) {
    double hi = 0, lo = 0, ratio;
    Interval end;
    for (j = 0; j < b->counts; j++) {
      hi += b->law[x * b->counts + j].hi * ours[s - counted[x] - j + reach];
      lo += b->law[y * b->counts + j].lo * theirs[s - counted[y] - j + reach];
    }
    end.hi = outward(hi, hi, b->counts).hi;
    end.lo = outward(lo, lo, b->counts).lo;
    ratio = end.lo > 0 ? next_up(end.hi / end.lo) : HUGE_VAL;
    if (ratio > most) most = ratio;
  }
  return next_up(most * prior);
}

static void check_counts(int steps) {
  int lefts, rights, i, j, x, y;
  Option *left, *right;
  double limit = exp_of(upper).lo, work = 0;
  Interval noise;
  noise.lo = exp_minus(rate_up).lo;
  noise.hi = exp_minus(rate_down).hi;
  if ((double)steps * steps * k * k * k > 16777216.0) die("checking it would take too long");
  for (fade[0] = point(1), i = 1; i < 2 * COUNTED + 4; i++) fade[i] = times(fade[i - 1], noise);
  left = side_options(1, steps, &lefts);
  right = side_options(0, steps, &rights);
  for (i = 0; i < lefts; i++) for (j = 0; j < rights; j++) {
    Option *a = left + i, *b = right + j;
    if (a->sort != BEYOND && b->sort != BEYOND) { /* do they fit into the series? */
      int records = a->records + b->records;
      if (n_records == 0 && records == 0) continue; /* a series has two records at least */
      if (n_records > 0)
        if (records > n_records - 1 || (a->sort == OPEN && b->sort == OPEN && records != n_records - 1)) continue;
    }
    for (x = 0; x < k; x++) for (y = 0; y < k; y++) {
      double one = a->told[x * k + y], two = b->told[x * k + y], apart = own[x][y] > 0 ? exp_of(rate_up).hi : 1;
      if (x == y || one == 0 || two == 0 || next_up(next_up(one * two) * apart) <= limit) continue;
      work += (double)a->counts * b->counts * 4;
      if (work > WORK) die("checking it would take too long");
      if (!(window(a, b, x, y) <= limit)) die("a window tells more than is claimed");
    }
  }
}

/* --- the program ------------------------------------------------------------------------------ */

static void check(const Node *root) {
  const Node *claim = field(root, "claim"), *proof = field(root, "proof"), *against = field(claim, "against"), *kind, *said;
  int steps, flips, x, y;
  double proved = 0, most;
  if (!is(field(root, "format"), "undertow-certificate")) die("it is no certificate");
  whole(field(root, "version"), 1, 1, "its version is not 1");
  if (field(root, "made_by")->kind != TEXT) die("made_by must be a text");
  upper = real(field(claim, "upper"), 0, LARGEST, "upper must be a number from 0 to 600");
  only(claim, 2);
  against_any = is(against, "any");
  against_informed = is(against, "informed");
  if (!against_any && !against_informed && !is(against, "ignorant")) die("against must be any, ignorant or informed");
  read_model(field(root, "model"));
  flips = is(field(field(root, "mechanism"), "kind"), "randomized-response");
  read_mechanism(field(root, "mechanism"), proof);
  said = optional(root, "conditions");
  only(root, said ? 8 : 7);
  if (said)
    for (said = entries(said, 1, CONDITIONS, "conditions must be a list of 1 to 64 texts"); said; said = said->next)
      if (said->kind != TEXT) die("conditions must be texts");
  kind = field(proof, "kind");
  if (is(kind, "level")) {
    only(proof, flips ? 2 : 1);
    if (!against_informed) die("a level alone proves a claim against informed only");
    for (x = 0; x < k; x++) for (y = 0; y < k; y++) if (x != y && own[x][y] > proved) proved = own[x][y];
  } else {
    if (against_informed) die("a claim against informed is proved by the level alone");
    most = n_records > 0 && n_records - 1 < STEPS ? n_records - 1 : STEPS;
    if (is(kind, "counts") && most > COUNTED) most = COUNTED;
    if (!is(kind, "sweep") && !is(kind, "counts")) die("the proof is of no kind known here");
    steps = whole(field(proof, "steps"), 1, most, "steps must be a whole number within the series and the limits");
    if (stationary_start) stationary_law();
    if (is(kind, "counts")) {
      if (!is_count) die("the counts of a side prove something about a count only");
      only(proof, 2);
      check_counts(steps);
    } else {
      only(proof, flips ? 5 : 4);
      proved = swept(proof, steps);
    }
  }
  if (!(proved <= upper)) {
    static char why[96];
    snprintf(why, sizeof why, "it claims %.17g, its proof gives %.17g", upper, proved);
    die(why);
  }
}

int main(int argc, char **argv) {
  FILE *file;
  unsigned char *text;
  size_t size;
  Node *root;
  if (argc != 2 || (argv[1][0] == '-' && argv[1][1])) {
    fprintf(stderr, "usage: undertow_verify certificate.json\n");
    return 2;
  }
  file = strcmp(argv[1], "-") ? fopen(argv[1], "rb") : stdin;
  if (!file) die("the file cannot be read");
  text = allocate((size_t)FILE_SIZE + 2, 1);
  size = fread(text, 1, (size_t)FILE_SIZE + 1, file);
  if (ferror(file)) die("the file cannot be read");
  if (size > (size_t)FILE_SIZE) die("it is larger than 16 MiB");
  text[size] = 0;
  at = text;
  end = text + size;
  root = value(0);
  blank();
  if (at != end) die("something follows the certificate");
  check(root);
  printf("accepted: no more than %.17g is told against %s\n", upper, against_any ? "any" : against_informed ? "informed" : "ignorant");
  return 0;
}
