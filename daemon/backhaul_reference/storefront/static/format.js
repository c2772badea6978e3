// Money, dates and states as people read them.

let locale = "en";
let currency = "XXX";
let digits = 2;

export function useStore(store) {
  try {
    locale = Intl.getCanonicalLocales(store.locale)[0];
  } catch {
    locale = "en";
  }
  currency = store.currency;
  const fee = store.paymentSettings.cod.fee ?? "0.00";
  digits = (fee.split(".")[1] ?? "").length;
}

export function region() {
  return new Intl.Locale(locale).maximize().region ?? "";
}

/** Decimal text to whole minor units: sums of floats would drift. */
export function minor(text) {
  const [whole, fraction = ""] = String(text).split(".");
  return Number(whole + fraction.padEnd(digits, "0").slice(0, digits));
}

export function decimal(units) {
  const text = String(units).padStart(digits + 1, "0");
  return digits ? `${text.slice(0, -digits)}.${text.slice(-digits)}` : text;
}

export function money(text) {
  const shape = { style: "currency", currency, minimumFractionDigits: digits };
  try {
    return new Intl.NumberFormat(locale, shape).format(text);
  } catch {
    return `${currency} ${text}`;
  }
}

/** What shipping costs: nothing reads better as a word. */
export function freight(text) {
  return minor(text) > 0 ? money(text) : "Free";
}

export function moment(text) {
  const shape = { dateStyle: "long", timeStyle: "short" };
  return new Intl.DateTimeFormat(locale, shape).format(new Date(text));
}

export function count(number, one, many) {
  return `${number} ${number === 1 ? one : many}`;
}

/** PARTIALLY_FULFILLED and its like, where no better words are known. */
export function words(code) {
  const text = code.toLowerCase().replaceAll("_", " ");
  return text.charAt(0).toUpperCase() + text.slice(1);
}
