import { DataTypes } from 'sequelize';
import type { Attributes, Model, ModelStatic } from 'sequelize';
import { query } from './db';
import type { Tx } from './db';

/** Puts a value among those of the statement, and answers the place that names it in the text. */
type Bind = (value: unknown) => string;

/** Part of a statement's text; its values go through `bind` and never into the text. */
export type Sql = (bind: Bind) => string;

/** A column that holds something. */
export const PRESENT = Symbol('present');

type Filter = string | number | boolean | null | typeof PRESENT;

/** Which rows: each named attribute has that value (null = none), and what else is said in SQL. */
export type Where<M extends Model> = Partial<Record<keyof Attributes<M>, Filter>> & { and?: Sql[] };

/** An attribute of a model and the column that holds it; a big integer comes as text. */
export interface StoredAttribute {
  name: string;
  column: string;
  isCount: boolean;
}

/** Every attribute of a model. */
export const attributesOf = (model: ModelStatic<Model>): StoredAttribute[] =>
  Object.entries(model.getAttributes()).map(([name, { field, type }]) => ({
    name,
    column: field ?? name,
    isCount: type instanceof DataTypes.BIGINT,
  }));

interface Shape {
  columns: Map<string, string>;
  /** Each column under the name of its attribute. */
  list: string;
  counts: string[];
}

const shapes = new WeakMap<object, Shape>();

function shapeOf(model: ModelStatic<Model>): Shape {
  let shape = shapes.get(model);
  if (shape === undefined) {
    const attributes = attributesOf(model);
    shape = {
      columns: new Map(attributes.map(({ name, column }) => [name, `"${column}"`])),
      list: attributes.map(({ name, column }) => `"${column}" as "${name}"`).join(', '),
      counts: attributes.filter(({ isCount }) => isCount).map(({ name }) => name),
    };
    shapes.set(model, shape);
  }
  return shape;
}

/**
 * A read of plain rows of a model's table: as one prepared statement for each combination of filters, and without making an
 * instance of each row, which costs more than reading it. Big integers, which come as text, are numbers here as in instances.
 */
class Select<M extends Model> {
  readonly #shape: Shape;
  readonly #binds: unknown[] = [];
  readonly #conditions: string[] = [];

  constructor(
    private readonly model: ModelStatic<M>,
    { and = [], ...filters }: Where<M>,
  ) {
    this.#shape = shapeOf(model);
    for (const [name, filter] of Object.entries(filters as Record<string, Filter>)) this.#filter(name, filter);
    for (const sql of and) this.and(sql);
  }

  /** Narrows the rows by a condition on the columns. */
  and(sql: Sql): void {
    this.#conditions.push(`(${sql(this.#bind)})`);
  }

  /** The rows, in the order and number that `tail` says. */
  async rows(tail: Sql, tx?: Tx): Promise<Attributes<M>[]> {
    const text = `select ${this.#shape.list} from "${this.model.tableName}"${this.#where()} ${tail(this.#bind)}`;
    const rows = await query<Record<string, unknown>>(text, this.#binds, tx);
    for (const row of rows)
      for (const name of this.#shape.counts) if (row[name] !== null) row[name] = Number(row[name]);
    return rows;
  }

  /** How many there are. */
  async count(): Promise<number> {
    const text = `select count(*) as total from "${this.model.tableName}"${this.#where()}`;
    const [row] = await query<{ total: string }>(text, this.#binds);
    return Number(row?.total);
  }

  readonly #bind: Bind = (value) => `$${String(this.#binds.push(value))}`;

  #where(): string {
    return this.#conditions.length === 0 ? '' : ` where ${this.#conditions.join(' and ')}`;
  }

  #filter(name: string, filter: Filter): void {
    const column = this.#shape.columns.get(name);
    if (column === undefined) throw new Error(`${this.model.name} has no attribute ${name}`);
    if (filter === null) this.#conditions.push(`${column} is null`);
    else if (filter === PRESENT) this.#conditions.push(`${column} is not null`);
    else this.#conditions.push(`${column} = ${this.#bind(filter)}`);
  }
}

/** A read of a model's table, narrowed by `where`. */
export const selectFrom = <M extends Model>(model: ModelStatic<M>, where: Where<M>): Select<M> =>
  new Select(model, where);
