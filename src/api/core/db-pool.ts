import { Sequelize } from 'sequelize';

/** A pool of connections to the database at `url`; at most `poolMax` of them. */
export function openDatabase(url: string, poolMax: number): Sequelize {
  return new Sequelize(url, {
    dialect: 'postgres',
    logging: false,
    define: { underscored: true, timestamps: false },
    pool: { max: poolMax, min: 0, idle: 30_000, acquire: 15_000 },
    dialectOptions: { application_name: 'svc', statement_timeout: 60_000, keepAlive: true },
  });
}
