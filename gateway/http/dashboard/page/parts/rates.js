// Rates from totals that are asked for again and again.  A rate is unknown unless both of its totals are whole.

const MAX_VALUES = 24; // of a line

/** Rates by name.  `seconds`: between two questions; what is much further apart is a gap. */
export class Rates {
  constructor(seconds) {
    this.longest = seconds * 4 * 1000;
    this.known = new Map();
  }

  /** Take the totals of one answer: [[name, total]].  `total`: digits, or null where it is not known or not whole.  Names
   * that are not in it are forgotten. */
  take(totals, now = performance.now()) {
    const before = this.known;
    this.known = new Map(totals.map(([key, total]) => [key, this.#next(before.get(key), total, now)]));
  }

  #next(before, total, now) {
    const whole = total === null ? null : BigInt(total);
    if (!before) return { total: whole, at: now, rates: [] };
    const isNear = now - before.at <= this.longest;
    const isKnown = isNear && whole !== null && before.total !== null && whole >= before.total && now > before.at;
    const rate = isKnown ? (Number(whole - before.total) * 1000) / (now - before.at) : null;
    return { total: whole, at: now, rates: [...before.rates, rate].slice(-MAX_VALUES) };
  }

  /** The newest rate in messages a second, or null. */
  rate(key) {
    return this.known.get(key)?.rates.at(-1) ?? null;
  }

  /** The last rates, with null for gaps; empty while there are too few for a line. */
  line(key) {
    const rates = this.known.get(key)?.rates ?? [];
    return rates.filter((each) => each !== null).length > 2 ? rates : [];
  }
}
